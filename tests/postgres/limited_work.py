"""Actors that stay until they are let go, and count how many of each are there at once."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.postgres.workers_at_work import DEADLINE, until
from tidegate import ActorData, App, ReceivedMessageT


@dataclass
class Hall:
    """A place where runs of actors stay until `leave` is set."""

    leave: asyncio.Event = field(default_factory=asyncio.Event)
    inside: "Counter[str]" = field(default_factory=Counter)
    most: "Counter[str]" = field(default_factory=Counter)
    came: list[str] = field(default_factory=list)

    async def stay(self, name: str) -> None:
        self.came.append(name)
        self.inside[name] += 1
        self.most[name] = max(self.most[name], self.inside[name])
        try:
            async with asyncio.timeout(DEADLINE):
                await self.leave.wait()
        finally:
            self.inside[name] -= 1

    async def holds(self, **counts: int) -> None:
        """Wait until so many of each are there."""

        async def look() -> bool:
            return all(self.inside[name] == count for name, count in counts.items())

        await until(look)


class WorkLimitPolicy:
    """A local policy: each message costs one unit of work."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError("capacity must be positive")
        self.capacity = capacity
        self.used = 0
        self.most = 0
        self.ready = asyncio.Condition()

    async def reserve(
        self, _message: ReceivedMessageT, _actor: ActorData, on_wait: Callable[[], Awaitable[None]]
    ) -> "WorkLease":
        async with self.ready:
            if self.used < self.capacity:
                return self._granted()
        await on_wait()
        async with self.ready:
            await self.ready.wait_for(lambda: self.used < self.capacity)
            return self._granted()

    def _granted(self) -> "WorkLease":
        self.used += 1
        self.most = max(self.most, self.used)
        return WorkLease(self)


class WorkLease:
    """One unit of work."""

    def __init__(self, policy: WorkLimitPolicy) -> None:
        self.policy = policy
        self.released = False

    async def release(self) -> None:
        async with self.policy.ready:
            if self.released:
                return
            self.released = True
            self.policy.used -= 1
            self.policy.ready.notify_all()


async def states(app: App) -> dict[str, int]:
    """Return how many jobs are in each state."""
    rows = await app.engine.fetch("select state, count(*) n from tidegate.job_status group by state")
    return {row["state"]: row["n"] for row in rows}


async def running(app: App) -> dict[str, int]:
    """Return how many jobs of each actor the database counts as running."""
    rows = await app.engine.fetch("select actor, count(*) n from tidegate.jobs where state = 'running' group by actor")
    return {row["actor"]: row["n"] for row in rows}


async def in_states(app: App, **counts: int) -> None:
    """Wait until exactly so many jobs are in these states, and none in another."""

    async def look() -> bool:
        return await states(app) == counts

    await until(look)


def arguments(count: int) -> list[dict[str, Any]]:
    """Return arguments for so many jobs of an actor that takes none."""
    return [{} for _ in range(count)]
