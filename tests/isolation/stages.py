"""Databases with the scene, and permutations played there and judged."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg

from tests.conftest import Server
from tests.isolation.schedules import Outcome, Schedule, run
from tidegate.audit import Drift, History, JobRow, install, judge, read_history
from tidegate.store.embedded import find_binaries
from tidegate.store.engine import Engine

TESTER = "src/test/isolation/isolationtester"

DEBIAN = Path("/usr/lib/postgresql/15/lib/pgxs")

DATABASES = 3
"""Played in at once: more than cores, since a tester and its server wait for each other."""

FORGET = "truncate tidegate_audit.events, scene.permutations, scene.drift, scene.left_over restart identity"


Prepare = Callable[[Any], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Played:
    """A permutation, what is wrong with it, and how many events its history has."""

    outcome: Outcome
    breaches: tuple[str, ...]
    events: int


def perform(server: Server, schedules: Sequence[Schedule], *, prepare: Prepare | None = None) -> list[Played]:
    """Play these schedules in databases of their own on a server; `prepare` may change the first before it is cloned.

    Raises:
        FileNotFoundError: isolationtester is not installed.
    """
    tester = find_tester(server)
    with ExitStack() as stack:
        scene = stack.enter_context(server.database(server.template))
        asyncio.run(set_up(scene, prepare))
        template = urlsplit(scene).path[1:]
        urls = [stack.enter_context(server.database(template)) for _ in schedules[:DATABASES]]
        return play_all(tester, urls, schedules)


def find_tester(server: Server) -> Path:
    """Return the isolationtester that came with the server, or another one: it knows every release by its protocol.

    Raises:
        FileNotFoundError: there is none.
    """
    with psycopg.connect(server.url) as connection:
        old = connection.info.server_version < 160000
    wheel = find_binaries().parent / "lib" / "postgresql" / "pgxs"
    for folder in (DEBIAN, wheel) if old else (wheel, DEBIAN):
        if (folder / TESTER).exists():
            return folder / TESTER
    raise FileNotFoundError("isolationtester is not installed (Debian: postgresql-client-15)")


async def set_up(database_url: str, prepare: Prepare | None) -> None:
    """Make the scene in a migrated database."""
    engine = Engine(database_url)
    try:
        await install(engine)
        await engine.execute((files("tests.isolation") / "scene.sql").read_text(encoding="utf-8"))
        await engine.execute("call scene.set_up()")
        async with engine.connect() as connection:
            if prepare is not None:
                await prepare(connection)
    finally:
        await engine.close()


def play_all(tester: Path, urls: Sequence[str], schedules: Sequence[Schedule]) -> list[Played]:
    """Play these schedules, spread over databases at once: a permutation mostly waits for its own next step."""
    share = -(-len(schedules) // len(urls))
    shares = [schedules[start : start + share] for start in range(0, len(schedules), share)]
    with ThreadPoolExecutor(len(urls)) as pool:
        return [played for part in pool.map(partial(play, tester), urls, shares) for played in part]


def play(tester: Path, url: str, schedules: Sequence[Schedule]) -> list[Played]:
    """Play these schedules in one database of the scene and judge each."""
    asyncio.run(_execute(url, FORGET))
    outcomes = run(tester, url, schedules)
    histories = asyncio.run(_histories(url))
    return [
        Played(outcome, tuple(_breaches(outcome, history)), len(history.events))
        for outcome, history in zip(outcomes, histories, strict=True)
    ]


def _breaches(outcome: Outcome, history: History) -> Iterator[str]:
    """Yield everything that must not be, whatever is recorded: no expected output can hide it."""
    yield from map(str, judge(history, drained=True).violations)
    if "STRANDED" in outcome.settled:
        yield f"capacity is free and nobody was told: {outcome.settled}"
    predicted = outcome.pair.waiting(outcome.steps)
    if outcome.waited != predicted:
        yield f"waits: {outcome.waited or 'nobody'}, and by what it locks: {predicted or 'nobody'}"


async def _histories(url: str) -> list[History]:
    """Read the history of each permutation, in order."""
    engine = Engine(url)
    try:
        events = (await read_history(engine)).events
        firsts = await engine.fetch("select first_event from scene.permutations order by number")
        drift = await engine.fetch("select * from scene.drift")
        jobs = await engine.fetch("select * from scene.left_over")
    finally:
        await engine.close()
    starts = [row["first_event"] for row in firsts]
    return [
        History(
            events=[event for event in events if first <= event.seq < after],
            jobs=[JobRow(**_without_number(row)) for row in jobs if row["number"] == number],
            drift=[Drift(**_without_number(row)) for row in drift if row["number"] == number],
        )
        for number, (first, after) in enumerate(zip(starts, [*starts[1:], float("inf")], strict=True), 1)
    ]


def _without_number(row: Any) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "number"}


async def _execute(url: str, sql: str) -> None:
    engine = Engine(url)
    try:
        await engine.execute(sql)
    finally:
        await engine.close()
