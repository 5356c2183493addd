"""Random operations over many connections, in forms that force each path of the claim, judged by their history."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from time import monotonic
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from tidegate.audit import History, Verdict, install, judge, read_history
from tidegate.audit.measures import count_tests
from tidegate.store.engine import Engine

CONNECTIONS = 8

LEASE = 0.3
"""Seconds. Short, so that rescues happen; a worker of a storm beats its heart as one operation among others."""

DRAIN_SECONDS = 60.0

ERRORS = 20
"""A storm with so many is over."""

ITEMS = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What a storm is made of.

    Attributes:
        name: what it forces.
        paths: functions that must have been called, or the form did not do what it is for.
        keys: limit keys; jobs without one come too, where ``free`` is not 0.
        groups: group keys; empty for a group a key.
        policies: changes of limits to choose from.
        delays: seconds to choose from; 0 is at once.
        lives: seconds until a job expires; 0 is never.
        sizes: bytes of filler in payloads.
        budgets: bytes that a claim may take; None is any.
        fair: orders in which claims ask; None is the queue's own.
        meddling: how often rules change, queues are suspended and workers vanish, beside the work.
    """

    name: str
    paths: frozenset[str]
    queues: tuple[str, ...] = ("a", "b")
    order: str = "priority"
    actors: tuple[str, ...] = ("x",)
    keys: tuple[str, ...] = ("k1", "k2", "k3", "k4")
    groups: tuple[str, ...] = ()
    policies: tuple[dict[str, int | None], ...] = ({"max_running": 2}, {"max_running": 3})
    priorities: tuple[int, ...] = (0, 0, 0, 1)
    delays: tuple[float, ...] = (0,)
    lives: tuple[float, ...] = (0,)
    sizes: tuple[int, ...] = (0,)
    budgets: tuple[int | None, ...] = (None,)
    fair: tuple[bool | None, ...] = (None,)
    free: float = 0.1
    meddling: float = 0.05
    vanishing: float = 0.0


@dataclass(slots=True)
class Aftermath:
    """What a storm leaves. ``errors``: SQLSTATEs that reached a caller and must not."""

    form: Form
    operations: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    deadlocks: int = 0
    left: int = 0
    called: frozenset[str] = frozenset()
    history: History = field(default_factory=lambda: History(events=()))

    @property
    def verdict(self) -> Verdict:
        """What the judge says."""
        return judge(self.history, drained=True)

    def complaints(self) -> list[str]:
        """Return everything that is wrong: rules broken, errors that surfaced, jobs that are stuck."""
        found = [*self.errors, *map(str, self.verdict.violations)]
        found += [f"{self.deadlocks} deadlocks"] if self.deadlocks else []
        found += [f"{self.left} jobs never ended"] if self.left else []
        return found

    def tested(self) -> tuple[int, int]:
        """Return how many starts filled a ``max_running`` and a ``max_starts``."""
        return count_tests(self.history.events)


class Hand:
    """One connection that does one thing after the other, as one worker and as a producer and an operator too.

    Args:
        connection: its own.
        form: of the storm.
        aftermath: where it counts what it did.
        dice: where its chance comes from.
    """

    def __init__(self, connection: Any, form: Form, aftermath: Aftermath, dice: random.Random) -> None:
        self._connection = connection
        self._form = form
        self._aftermath = aftermath
        self._dice = dice
        self._worker = uuid4()
        self._claims = count(1)
        self._held: list[tuple[int, int]] = []
        self._old: list[tuple[UUID, int, int]] = []

    async def register(self) -> None:
        """Take part as a new worker; what the old one held is forgotten."""
        self._worker, self._claims, self._held = uuid4(), count(1), []
        await self._connection.execute(
            "select tidegate.register_worker($1, 'hand', $2, $3, 8, null, make_interval(secs => $4), 'test')",
            self._worker,
            list(self._form.queues),
            list(self._form.actors),
            LEASE if self._form.vanishing else 3600.0,
        )

    async def play(self, backlog: int) -> None:
        """Do one thing, now and then in a transaction that stays open for a moment or is undone."""
        dice, form = self._dice, self._form
        rare = [self._govern, self._suspend, self._cancel, self._bring_late, self._keep_house]
        if dice.random() < form.meddling:
            step = dice.choice(rare)
        elif dice.random() < form.vanishing:
            step = dice.choice((self._vanish, self._leave, self._beat, self._rescue, self._rescue))
        elif backlog < 60 and dice.random() < 0.5:
            step = self._put
        else:
            step = dice.choice((self._work, self._work, self._work, self._finish))
        self._aftermath.operations[step.__name__.strip("_")] += 1
        alone = step in (self._keep_house, self._suspend, self._vanish)
        await self._guarded(step, held=not alone and dice.random() < 0.15)

    async def _guarded(self, step: Callable[[], Awaitable[list[str] | None]], *, held: bool) -> None:
        kept = list(self._held)
        try:
            if not held:
                keys = await step()
            else:
                transaction = self._connection.transaction()
                await transaction.start()
                keys = await self._hold_open(transaction, step)
                if keys is None:
                    self._held = kept
            while keys:
                keys = await self._connection.fetchval("select tidegate.wake($1)", keys)
        except asyncpg.NoDataFoundError:
            await self.register()
        except asyncpg.PostgresError as error:
            self._held = kept
            self._aftermath.errors.append(f"{step.__name__}: {error.sqlstate} {error}")

    async def _hold_open(self, transaction: Any, step: Callable[[], Awaitable[list[str] | None]]) -> list[str] | None:
        """Return the keys to wake, or None where it was undone."""
        try:
            keys = await step()
            await asyncio.sleep(self._dice.random() * 0.004)
        except BaseException:
            await transaction.rollback()
            raise
        if self._dice.random() < 0.2:
            await transaction.rollback()
            return None
        await transaction.commit()
        return keys or []

    # work

    async def _put(self) -> None:
        dice, form = self._dice, self._form
        jobs = []
        for _ in range(dice.randint(1, 5)):
            lives = dice.choice(form.lives)
            jobs.append(
                {
                    "queue": dice.choice(form.queues),
                    "actor": dice.choice(form.actors),
                    "limit_key": "" if dice.random() < form.free else dice.choice(form.keys),
                    "group_key": dice.choice(form.groups) if form.groups else None,
                    "priority": dice.choice(form.priorities),
                    "delay": dice.choice(form.delays) or None,
                    "expires_at": await self._in(lives) if lives else None,
                    "payload": {"item": next(ITEMS), "filler": "x" * dice.choice(form.sizes)},
                }
            )
        await self._connection.execute("select tidegate.enqueue_many($1)", json.dumps(jobs))

    async def _in(self, seconds: float) -> str:
        at = await self._connection.fetchval("select clock_timestamp() + make_interval(secs => $1)", seconds)
        return str(at.isoformat())

    async def _work(self, *, slots: int | None = None) -> list[str]:
        """Hand in a part of what runs, and take more."""
        dice, form = self._dice, self._form
        done = [token for token in self._held if dice.random() < 0.7]
        number = next(self._claims)
        actors = dice.sample(form.actors, dice.randint(1, len(form.actors)))
        slots = dice.randint(1, 6) if slots is None else slots
        rows = await self._connection.fetch(
            "select id, wake from tidegate.claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
            self._worker,
            number,
            dice.choice(form.queues),
            slots,
            actors,
            [dice.randint(1, slots) for _ in actors],
            dice.choice(form.budgets),
            dice.choice(form.fair),
            [job for job, _ in done],
            [claim for _, claim in done],
        )
        self._drop(done)
        self._held += [(row["id"], number) for row in rows if row["id"] is not None]
        return [key for row in rows for key in row["wake"] or ()]

    async def _finish(self) -> list[str]:
        how = self._dice.choice(("ack", "ack", "nack", "release"))
        some = [token for token in self._held if self._dice.random() < 0.6]
        if not some:
            return []
        keys = await self._outcome(how, self._worker, some)
        self._drop(some)
        return keys

    async def _outcome(self, how: str, worker: UUID, tokens: Sequence[tuple[int, int]]) -> list[str]:
        more = [["broke"] * len(tokens)] * 2 if how == "nack" else []
        places = "".join(f", ${place}" for place in range(4, 4 + len(more)))
        row = await self._connection.fetchrow(
            f"select stale, wake from tidegate.{how}($1, $2, $3{places})",  # noqa: S608
            worker,
            [job for job, _ in tokens],
            [claim for _, claim in tokens],
            *more,
        )
        return row["wake"] or []

    def _drop(self, tokens: Sequence[tuple[int, int]]) -> None:
        self._held = [token for token in self._held if token not in tokens]
        self._old = [*self._old[-20:], *((self._worker, *token) for token in tokens)]

    # meddling

    async def _govern(self) -> None:
        key = self._dice.choice((*self._form.keys, *self._form.groups[:2]))
        changes = self._dice.choice((*self._form.policies, {"weight": self._dice.randint(1, 4)}, None))
        if changes is None:
            await self._connection.execute("select tidegate.clear_limit($1)", key)
        else:
            await self._connection.execute("select tidegate.change_limit($1, $2)", key, json.dumps(changes))

    async def _suspend(self) -> None:
        queue = self._dice.choice(self._form.queues)
        for suspended in ("true", "false"):
            changes = f'{{"suspended": {suspended}}}'
            await self._connection.execute("select tidegate.set_queue($1, $2)", queue, changes)

    async def _cancel(self) -> None:
        await self._connection.execute(
            "select tidegate.cancel(id) from (select id from tidegate.jobs where random() < 0.2 limit 1) z"
        )

    async def _bring_late(self) -> list[str]:
        """Send an outcome that somebody sent before; its token holds nothing any more."""
        if not self._old:
            return []
        worker, job, claim = self._dice.choice(self._old)
        return await self._outcome("ack", worker, [(job, claim)])

    async def _keep_house(self) -> None:
        await self._connection.execute("call tidegate.maintain($1)", self._worker)

    async def _vanish(self) -> None:
        await self.register()

    async def _leave(self) -> None:
        await self._connection.execute("select * from tidegate.leave($1)", self._worker)
        self._held = []
        if not self._connection.is_in_transaction():
            await self.register()

    async def _beat(self) -> None:
        """Heartbeat, having lost some of the claims."""
        known = [token for token in self._held if self._dice.random() < 0.8]
        row = await self._heartbeat(known)
        if row["alive"]:
            self._held = known

    async def _heartbeat(self, known: Sequence[tuple[int, int]]) -> Any:
        return await self._connection.fetchrow(
            "select * from tidegate.heartbeat($1, $2, $3, 1000000, true)",
            self._worker,
            [job for job, _ in known],
            [claim for _, claim in known],
        )

    async def _rescue(self) -> list[str]:
        await self._heartbeat(self._held)
        rows = await self._connection.fetch("select wake from tidegate.rescue($1)", self._worker)
        return [key for row in rows for key in row["wake"] or ()]

    # the end

    async def drain(self, until: float) -> None:
        """Work until nothing is left, or until that time of the monotonic clock."""
        while monotonic() < until and await self._connection.fetchval("select exists (select from tidegate.jobs)"):
            await self._guarded(self._rescue, held=False)
            await self._guarded(self._work_off, held=False)

    async def _work_off(self) -> list[str]:
        keys = [key for _ in range(len(self._form.queues)) for key in await self._work(slots=8)]
        tokens, self._held = self._held, []
        return keys + (await self._outcome("ack", self._worker, tokens) if tokens else [])


QUICK_BACKOFF = """
create or replace function tidegate.backoff(attempt int) returns interval language sql volatile as $$
  select random() * interval '10 milliseconds'
$$"""

CALLED = "select funcname from pg_stat_user_functions where schemaname = 'tidegate'"

LET_GO = "select tidegate.clear_limit(key) from tidegate.limits where max_running = 0"
"""Every other limit stays while the storm is worked off."""

DEADLOCKS = "select deadlocks from pg_stat_database where datname = current_database()"


async def storm(
    database_url: str,
    form: Form,
    operations: int,
    *,
    seed: int = 1,
    prepare: Callable[[Any], Awaitable[None]] | None = None,
    settings: dict[str, str] | None = None,
    drain_seconds: float = DRAIN_SECONDS,
) -> Aftermath:
    """Let it storm on a migrated database, drain, and read what happened.

    Args:
        database_url: of the database.
        form: of the storm.
        operations: how many, over all connections.
        seed: of all chance but the scheduler's.
        prepare: called with a connection before anything happens.
        settings: of the connections.
        drain_seconds: for everything to end.
    """
    aftermath = Aftermath(form)
    engine = Engine(database_url, application_name="tidegate storm")
    try:
        await install(engine)
        await engine.execute(QUICK_BACKOFF)
        async with engine.connect() as connection:
            if prepare is not None:
                await prepare(connection)
        async with _connections(database_url, settings or {}) as connections:
            hands = [
                Hand(each, form, aftermath, random.Random(seed * 100 + number))  # noqa: S311 - to be repeated
                for number, each in enumerate(connections)
            ]
            await _play(connections, hands, aftermath, operations)
            until = monotonic() + drain_seconds
            await asyncio.gather(*(hand.drain(until) for hand in hands))
        aftermath.deadlocks = await engine.fetchval(DEADLOCKS)
        aftermath.called = frozenset(row["funcname"] for row in await engine.fetch(CALLED))
        aftermath.left = await engine.fetchval("select count(*) from tidegate.jobs")
        aftermath.history = await read_history(engine, recount=True)
    finally:
        await engine.close()
    return aftermath


async def _play(connections: Sequence[Any], hands: Sequence[Hand], aftermath: Aftermath, operations: int) -> None:
    form = aftermath.form
    for hand in hands:
        await hand.register()
    for queue in form.queues:
        await connections[0].execute("select tidegate.set_queue($1, $2)", queue, json.dumps({"order": form.order}))
    for number, key in enumerate(form.keys):
        policy = form.policies[number % len(form.policies)]
        await connections[0].execute("select tidegate.change_limit($1, $2)", key, json.dumps(policy))
    left = count(operations, -1)

    async def play_on(hand: Hand, connection: Any) -> None:
        while next(left) > 0 and len(aftermath.errors) < ERRORS:
            await hand.play(await connection.fetchval("select count(*) from tidegate.jobs"))

    await asyncio.gather(*(play_on(hand, each) for hand, each in zip(hands, connections, strict=True)))
    await connections[0].execute(LET_GO)


@asynccontextmanager
async def _connections(url: str, settings: dict[str, str]) -> Any:
    opened: list[Any] = []
    try:
        options = {"track_functions": "all", **settings}
        while len(opened) < CONNECTIONS:
            opened += [await asyncpg.connect(url, server_settings=options)]
        yield opened
    finally:
        for connection in opened:
            await connection.close()
