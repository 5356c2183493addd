"""The story of the demo: the same two tenants in default order, then in fair order with a vendor and a murder."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import monotonic
from urllib.parse import urlsplit, urlunsplit

from examples import tenants
from examples.demonstration.processes import EXAMPLES, WorkerProcess, run_tidegate, worker_processes
from examples.demonstration.screens import Screen
from examples.demonstration.watching import Snapshot, look
from tidegate.audit import History, install, read_history
from tidegate.store.engine import Engine

LEASE_SECONDS = 5
SLOTS = 5
SURVIVOR, VICTIM = "worker-1", "worker-2"

BIG, SMALL, VENDOR = "tenant-big", "tenant-small", "vendor-x"
TENANTS = {BIG: 5_000, SMALL: 20}
EVERYBODY = {BIG: 5_000, VENDOR: 130, SMALL: 20}
"""Jobs by key, in the order in which they are enqueued: the flood first."""

COMPARED_SECONDS = 10.0
KILL_AFTER_SECONDS = 30.0
LONGEST_SECONDS = 150.0
"""The fair part takes a good minute; one that takes this long has failed."""

START_SECONDS = 30.0
"""For two Python processes to start, on a slow machine."""

LOOKS_A_SECOND = 4

OPTIONS = ("--queue", "mail", "--slots", str(SLOTS), "--lease", f"{LEASE_SECONDS}s", "--grace", "3s")


@dataclass(frozen=True, slots=True)
class Murder:
    """How a worker ended: the database's clock at its SIGKILL, and how many jobs it ran."""

    at: datetime
    jobs: int


@dataclass(frozen=True, slots=True)
class Played:
    """What is left of a part of the story, for the proof. ``end`` is the database's clock when watching stopped."""

    history: History
    end: datetime
    murder: Murder | None = None


async def play_default_order(server_url: str, screen: Screen, logs: Path) -> Played:
    """Let the two tenants run for ten seconds in default order, in a database of their own."""
    maker = Engine(server_url, max_size=1)
    try:
        await maker.execute("create database default_order template template0")
    finally:
        await maker.close()
    url = urlunsplit(urlsplit(server_url)._replace(path="/default_order"))
    screen.act(f"before: two tenants in default order, for {COMPARED_SECONDS:.0f} s", sum(TENANTS.values()))
    async with _prepared(url, screen, "limits.yaml") as engine:
        with worker_processes() as workers:
            snapshot = await _start(engine, workers, url, logs)
            await _enqueue(engine, screen, TENANTS)
            until = monotonic() + COMPARED_SECONDS
            while monotonic() < until:
                snapshot = await _frame(engine, screen)
            screen.say(f"{SMALL} had {snapshot.done.get(SMALL, 0)} of {TENANTS[SMALL]} jobs done when time was up")
            await asyncio.gather(*(worker.stop() for worker in workers))
        return Played(await read_history(engine), snapshot.at)


async def play_fair_order(server_url: str, screen: Screen, logs: Path) -> Played:
    """Let everybody run in fair order until all is done, and kill a worker half way."""
    total = sum(EVERYBODY.values())
    screen.act("now: fair order, a vendor with a rate, and a worker that will be killed", total)
    async with _prepared(server_url, screen, "limits.yaml", "queues.yaml") as engine:
        with worker_processes() as workers:
            await _start(engine, workers, server_url, logs)
            await _enqueue(engine, screen, EVERYBODY)
            murder = await _watch(engine, workers, screen, total)
            await asyncio.gather(*(worker.stop() for worker in workers))
        screen.say("all jobs are done; reading the history")
        return Played(await read_history(engine, recount=True), (await look(engine)).at, murder)


@asynccontextmanager
async def _prepared(url: str, screen: Screen, *manifests: str) -> AsyncIterator[Engine]:
    """Migrate, record, apply: what an owner of a new database does, by the commands that he would use."""
    await run_tidegate(url, "schema", "migrate")
    engine = Engine(url, max_size=4, application_name="tidegate demo")
    try:
        await install(engine)
        files = [str((EXAMPLES / name).relative_to(EXAMPLES.parent)) for name in manifests]
        screen.say(f"tidegate apply {' '.join(f'-f {file}' for file in files)}")
        for line in await run_tidegate(url, "apply", *(part for file in files for part in ("-f", file))):
            screen.say(f"  {line}")
        yield engine
    finally:
        await engine.close()


async def _enqueue(engine: Engine, screen: Screen, jobs: Mapping[str, int]) -> None:
    """Enqueue everything in one transaction: the workers see all of it or nothing."""
    async with engine.begin() as connection:
        for key, count in jobs.items():
            actor = tenants.call_vendor if key == VENDOR else tenants.send_mail
            items = ({"item": f"{key} {number}"} for number in range(1, count + 1))
            await actor.using(session=connection, limit_key=key).enqueue_many(items)
    screen.say("enqueued " + ", ".join(f"{count:,} jobs of {key}" for key, count in jobs.items()))


async def _start(engine: Engine, workers: list[WorkerProcess], url: str, logs: Path) -> Snapshot:
    """Start the workers and return when both are ready: starting a process is no part of what is measured."""
    # one by one: those that were started are in the list when the next one cannot be
    workers.extend(
        WorkerProcess(name, app="tenants:app", folder=EXAMPLES, database_url=url, logs=logs, options=OPTIONS)
        for name in (SURVIVOR, VICTIM)
    )
    async with asyncio.timeout(START_SECONDS):
        while True:
            snapshot = await look(engine)
            if {row.name for row in snapshot.workers} >= {worker.name for worker in workers}:
                return snapshot
            for worker in workers:
                _must_run(worker)
            await asyncio.sleep(1 / LOOKS_A_SECOND)


async def _watch(engine: Engine, workers: list[WorkerProcess], screen: Screen, total: int) -> Murder:
    survivor, victim = workers
    began = monotonic()
    murder: Murder | None = None
    rescued = waited = False
    while True:
        snapshot = await _frame(engine, screen)
        _must_run(survivor)
        if murder is None:
            _must_run(victim)
            if monotonic() - began >= KILL_AFTER_SECONDS and snapshot.running_on(victim.name):
                murder = await _kill(engine, victim, screen)
        elif snapshot.rescued and not rescued:
            rescued = True
            since = (snapshot.at - murder.at).total_seconds()
            screen.say(f"{survivor.name} rescued {snapshot.rescued} jobs of {victim.name}, {since:.1f} s after its end")
        if not waited and (wait := _vendor_wait(snapshot)):
            waited = True
            screen.say(wait)
        if snapshot.finished >= total and murder is not None:
            return murder
        if monotonic() - began > LONGEST_SECONDS:
            raise RuntimeError(f"only {snapshot.finished} of {total} jobs were done after {LONGEST_SECONDS:.0f} s")


async def _kill(engine: Engine, victim: WorkerProcess, screen: Screen) -> Murder:
    victim.kill()
    snapshot = await look(engine)
    jobs = snapshot.running_on(victim.name)
    screen.say(
        f"killed {victim.name} (process {victim.pid}) with SIGKILL while it ran {jobs} jobs; lease {LEASE_SECONDS} s"
    )
    return Murder(snapshot.at, jobs)


def _vendor_wait(snapshot: Snapshot) -> str | None:
    """Say when the vendor's rate holds its jobs back."""
    for limit in snapshot.limits:
        full = limit.key == VENDOR and limit.max_starts is not None and limit.starts >= limit.max_starts
        if full and limit.waiting and not limit.running and limit.next_start_at is not None:
            seconds = (limit.next_start_at - snapshot.at).total_seconds()
            held = f"{limit.waiting} jobs wait {seconds:.0f} s for the window"
            return f"{VENDOR}: {limit.starts} starts in this minute, {held}"
    return None


async def _frame(engine: Engine, screen: Screen) -> Snapshot:
    """Look, show, and wait for the next look."""
    began = monotonic()
    snapshot = await look(engine)
    screen.show(snapshot)
    await asyncio.sleep(max(0.0, 1 / LOOKS_A_SECOND - (monotonic() - began)))
    return snapshot


def _must_run(worker: WorkerProcess) -> None:
    if not worker.running:
        last = worker.log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:]
        raise RuntimeError("\n".join([f"{worker.name} ended by itself; the end of {worker.log}:", *last]))
