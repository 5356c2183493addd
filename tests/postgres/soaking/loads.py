"""What happens to the database during a soak: jobs, changing policies, held queues, cancelled jobs."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta

import asyncpg

from tests.postgres.soaking import app as actors
from tidegate import clear_limit, set_limit
from tidegate.errors import NotFound
from tidegate.store.engine import Engine
from tidegate.store.jobs import cancel_job
from tidegate.store.queues import resume_queue, set_queue, suspend_queue

BACKLOG = 1_000
"""Jobs in the table at which producers pause."""

COUNT = "select count(*) from tidegate.jobs"

SOME_JOB = "select id from tidegate.jobs order by id desc offset $1 limit 1"

MINUTELY = timedelta(minutes=1)


class Undone(Exception):  # noqa: N818 - it is no error
    """Rolls a transaction back."""


class Load:
    """Producers and policy makers, each a loop that runs until it is cancelled.

    Args:
        engine: the database.
        keys: how many limit keys there are.
        dice: where all chance comes from.
    """

    def __init__(self, engine: Engine, keys: int, dice: random.Random) -> None:
        self._engine = engine
        self._keys = [f"key-{number:03}" for number in range(keys)]
        self._dice = dice
        self._items = 0
        self._open: set[asyncio.Task[None]] = set()

    async def prepare(self) -> None:
        """Give both queues their order and half of the keys a policy."""
        for queue in actors.QUEUES:
            await set_queue(self._engine, queue, {"order": "fair" if "fair" in queue else "priority"})
        for _ in self._keys:
            await self._guarded(self._change_policy, 0.0)

    async def produce(self) -> None:
        """Keep the backlog up: single jobs and batches, at once and later, in transactions long, short and undone."""
        while True:
            if await self._engine.fetchval(COUNT) >= BACKLOG:
                await asyncio.sleep(0.05)
                continue
            await self._sometimes_open(self._enqueue)

    async def change_policies(self) -> None:
        """Set and clear limits, about forty times a second."""
        while True:
            await self._sometimes_open(self._change_policy)
            await asyncio.sleep(0.02)

    async def meddle(self) -> None:
        """Hold a queue for a moment, and cancel a job here and there."""
        while True:
            queue = self._dice.choice(actors.QUEUES)
            await suspend_queue(self._engine, queue)
            await asyncio.sleep(0.3)
            await resume_queue(self._engine, queue)
            for _ in range(10):
                job = await self._engine.fetchval(SOME_JOB, self._dice.randrange(BACKLOG))
                if job is not None:
                    with contextlib.suppress(NotFound):
                        await cancel_job(self._engine, job)
                await asyncio.sleep(0.2)

    async def settle(self) -> None:
        """Let everything that is held go."""
        await asyncio.gather(*self._open, return_exceptions=True)
        for queue in actors.QUEUES:
            await resume_queue(self._engine, queue)
        for key in self._keys:
            await clear_limit(self._engine, key)

    async def _sometimes_open(self, work: Callable[[float], Awaitable[None]]) -> None:
        """Do it, now and then in a transaction that stays open beside everything else."""
        if len(self._open) < 4 and self._dice.random() < 0.05:
            task = asyncio.create_task(self._guarded(work, self._dice.uniform(0.05, 0.5)))
            self._open.add(task)
            task.add_done_callback(self._open.discard)
        else:
            await self._guarded(work, 0.0)

    async def _guarded(self, work: Callable[[float], Awaitable[None]], pause: float) -> None:
        # A deadlock ends the work and not the run: the server counts them, and the judge asks it.
        with contextlib.suppress(Undone, asyncpg.DeadlockDetectedError):
            await work(pause)

    async def _enqueue(self, pause: float = 0.0) -> None:
        dice = self._dice
        actor = dice.choice((actors.quick, actors.slow, actors.unlucky, actors.steady))
        # a few keys get most of the jobs, some jobs have no key, some tenants share a vendor
        key = "" if dice.random() < 0.05 else self._keys[int(len(self._keys) * dice.random() ** 3)]
        size = dice.choice((1, 1, 2, 5, 20))
        items = [{"item": f"item {self._items + number}"} for number in range(size)]
        self._items += size
        async with self._engine.begin() as connection:
            enqueuer = actor.using(
                session=connection,
                limit_key=key,
                group_key=dice.choice((None, None, "tenant-1", "tenant-2", "tenant-3")),
                priority=dice.choice((0, 0, 0, 1, -1)),
                delay=timedelta(seconds=dice.uniform(0.01, 2)) if dice.random() < 0.1 else None,
                expires=timedelta(seconds=2.5) if dice.random() < 0.03 else None,
            )
            if size == 1:
                await enqueuer.enqueue(**items[0])
            else:
                await enqueuer.enqueue_many(items)
            await asyncio.sleep(pause)
            if dice.random() < 0.03:
                raise Undone

    async def _change_policy(self, pause: float = 0.0) -> None:
        dice = self._dice
        key = dice.choice(self._keys)
        async with self._engine.begin() as connection:
            match dice.randrange(4):
                case 0:
                    await set_limit(connection, key, max_running=dice.choice((0, 1, 1, 2, 3, 5, None)))
                case 1:
                    window = timedelta(milliseconds=dice.choice((100, 300, 1_000, 3_000)))
                    await set_limit(connection, key, max_starts=dice.choice((1, 2, 5, 10)), window=window)
                case 2:
                    await set_limit(connection, key, max_running=dice.randint(1, 4), weight=dice.randint(1, 5))
                case _:
                    await clear_limit(connection, key)
            await asyncio.sleep(pause)
            if dice.random() < 0.03:
                raise Undone
