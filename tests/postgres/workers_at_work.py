"""Workers inside the test's process, and how a test waits for what they do."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from tidegate import App
from tidegate.app import WorkerCapacity, scopes_of
from tidegate.model.defaults import SLOTS
from tidegate.runtime.settings import WorkerSettings
from tidegate.runtime.workers import WorkerRuntime
from tidegate.store.listening import Listener
from tidegate.store.workers import WorkerStore

T = TypeVar("T")

DEADLINE = 30.0
"""Seconds after which a wait has failed: far above what anything here takes on a busy machine."""

LOOK = 0.01
"""Seconds between two looks of a wait."""


async def until(look: Callable[[], Awaitable[T]], seconds: float = DEADLINE) -> T:
    """Look again and again until the answer is true, and return it."""
    async with asyncio.timeout(seconds):
        while not (answer := await look()):
            await asyncio.sleep(LOOK)
    return answer


@dataclass
class Gate:
    """A place in an actor where the test learns that it is there, and decides when it goes on."""

    entered: asyncio.Event = field(default_factory=asyncio.Event)
    leave: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    async def pass_through(self) -> None:
        self.entered.set()
        try:
            await self.leave.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def reached(self) -> None:
        async with asyncio.timeout(DEADLINE):
            await self.entered.wait()


@dataclass
class Worker:
    """A worker at work in this process."""

    runtime: WorkerRuntime
    store: WorkerStore
    task: "asyncio.Task[int]"
    endings: list[int]
    """Codes with which it wanted to end the process."""

    async def stopped(self) -> int:
        async with asyncio.timeout(DEADLINE):
            return await asyncio.shield(self.task)

    async def drained(self) -> int:
        self.runtime.stop()
        return await self.stopped()


@asynccontextmanager
async def at_work(
    app: App,
    *,
    queues: tuple[str, ...] | None = None,
    store: WorkerStore | None = None,
    listen_url: str | None = None,
    **settings: Any,
) -> AsyncIterator[Worker]:
    """Run a worker with the app's actors while the block runs; settings that are floats are seconds.

    It has the ten slots of the command, unless ``slots`` or ``limits`` says otherwise. One that hardly polls has either
    found work when the block begins or is known to sleep: what is committed between its last look and that moment would
    wake nobody until its poll.
    """
    capacity: Any = {name: settings.pop(name) for name in WorkerCapacity.__annotations__ if name in settings}
    if "limits" not in capacity:
        capacity.setdefault("slots", SLOTS)
    spans: Any = {
        name: timedelta(seconds=value) if isinstance(value, float) else value for name, value in settings.items()
    }
    chosen = WorkerSettings(queues=queues or app.queues, signals=False, **spans)
    store = store or WorkerStore(app.database_url, heartbeat_timeout=chosen.lease / 3)
    endings: list[int] = []
    listener = Listener(listen_url or app.database_url)
    runtime = WorkerRuntime(chosen, scopes_of(app, **capacity), store, listener, end=endings.append)
    task = asyncio.create_task(runtime.run())
    worker = Worker(runtime, store, task, endings)

    async def began() -> bool:
        asleep = "select exists (select from tidegate.sleepers where worker = $1)"
        me = runtime._ledger.registered_as
        return bool(task.done() or runtime.counts.claimed or (me and await app.engine.fetchval(asleep, me)))

    try:
        if chosen.poll > timedelta(minutes=1):
            await until(began)
        yield worker
    finally:
        runtime.stop()
        runtime.stop()
        await worker.stopped()


async def state_of(app: App, job: int) -> Any:
    """Return the row of ``job_status``, whether the job waits, runs or has finished."""
    row = await app.engine.fetchrow("select * from tidegate.job_status where id = $1", job)
    assert row is not None, f"job {job} is gone"
    return row


async def in_state(app: App, job: int, *states: str) -> Any:
    """Wait until a job is in one of these states, and return its row."""

    async def look() -> Any:
        row = await state_of(app, job)
        return row if row["state"] in states else None

    return await until(look)


async def all_succeeded(app: App, count: int) -> None:
    """Wait until so many jobs have succeeded."""

    async def look() -> bool:
        done: int = await app.engine.fetchval("select count(*) from tidegate.history where state = 'succeeded'")
        return done >= count

    await until(look)


async def no_drift(app: App) -> None:
    """Check that every kept count agrees with a recount."""
    assert [tuple(row) for row in await app.engine.fetch("select * from tidegate.recount()")] == []


async def asleep(app: App, *queues: str) -> None:
    """Wait until somebody wants to be told of news in each of these queues."""

    async def look() -> bool:
        found = await app.engine.fetch("select distinct queue from tidegate.sleepers")
        return set(queues) <= {row["queue"] for row in found}

    await until(look)
