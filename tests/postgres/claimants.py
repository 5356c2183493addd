"""Plain clients of the SQL functions, each on a connection of its own: what any language can do, without the worker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import asyncpg

Rows = list[asyncpg.Record]
NUMBERS = count(1)


@dataclass
class Claimant:
    """One registered worker that does what it is told, by hand."""

    connection: Any
    id: UUID = field(default_factory=uuid4)
    hint: asyncpg.Record | None = None

    async def register(self, *queues: str, lease_seconds: float = 30) -> None:
        await self.connection.execute(
            "select tidegate.register_worker($1, 'test', $2, '{x}', 8, null, make_interval(secs => $3), '0')",
            self.id,
            list(queues or ("a", "b", "c")),
            lease_seconds,
        )

    async def renew(self) -> None:
        self.id = uuid4()
        await self.register()

    async def claim(
        self,
        queue: str = "a",
        slots: int = 1,
        *,
        actors: tuple[str, ...] = ("x",),
        rooms: tuple[int, ...] | None = None,
        size: int | None = None,
        fair: bool | None = None,
        done: Rows | None = None,
        number: int | None = None,
        largest: int | None = None,
        refused_above: int | None = None,
    ) -> Rows:
        number = next(NUMBERS) if number is None else number
        rows = await self.connection.fetch(
            "select *, $2::bigint as claim from tidegate.claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
            self.id,
            number,
            queue,
            slots,
            list(actors),
            list(rooms) if rooms else None,
            size,
            fair,
            [row["id"] for row in done] if done else None,
            [row["claim"] for row in done] if done else None,
            largest,
            refused_above,
        )
        self.hint = next((row for row in rows if row["id"] is None), None)
        return [row for row in rows if row["id"] is not None]

    async def ack(self, rows: Rows, *, wake: bool = True) -> asyncpg.Record:
        return await self._outcome("select * from tidegate.ack($1, $2, $3)", rows, wake)

    async def nack(self, rows: Rows, *, retry: bool = True, wake: bool = True) -> asyncpg.Record:
        errors = ["it broke"] * len(rows)
        return await self._outcome("select * from tidegate.nack($1, $2, $3, $4, $4, $5)", rows, wake, errors, retry)

    async def release(self, rows: Rows, *, wake: bool = True) -> asyncpg.Record:
        return await self._outcome("select * from tidegate.release($1, $2, $3)", rows, wake)

    async def _outcome(self, sql: str, rows: Rows, wake: bool, *more: object) -> asyncpg.Record:
        tokens = [row["id"] for row in rows], [row["claim"] for row in rows]
        outcome: asyncpg.Record = await self.connection.fetchrow(sql, self.id, *tokens, *more)
        if wake:
            await self.wake(outcome["wake"])
        return outcome

    async def wake(self, keys: list[str] | None) -> None:
        while keys:
            keys = await self.connection.fetchval("select tidegate.wake($1)", keys)

    async def put(
        self,
        queue: str = "a",
        key: str = "",
        n: int = 1,
        *,
        actor: str = "x",
        priority: int = 0,
        group: str | None = None,
        size: int = 1,
        run_at: datetime | None = None,
        expires_at: datetime | None = None,
    ) -> None:
        job = {
            "queue": queue,
            "actor": actor,
            "limit_key": key,
            "group_key": group,
            "priority": priority,
            "payload": {"filler": "x" * size},
            "run_at": run_at.isoformat() if run_at else None,
            "expires_at": expires_at.isoformat() if expires_at else None,
        }
        await self.connection.execute("select tidegate.enqueue_many($1)", json.dumps([job] * n))

    async def limit(self, key: str, max_running: int | None = None, **changes: object) -> None:
        changes = {"max_running": max_running, **changes}
        await self.connection.execute("select tidegate.change_limit($1, $2)", key, json.dumps(changes))

    async def order(self, order: str, *queues: str) -> None:
        for queue in queues or ("a", "b", "c"):
            await self.connection.execute("select tidegate.set_queue($1, $2)", queue, json.dumps({"order": order}))

    async def now(self) -> datetime:
        now: datetime = await self.connection.fetchval("select clock_timestamp()")
        return now

    async def drift(self) -> list[tuple[object, ...]]:
        return [tuple(row) for row in await self.connection.fetch("select * from tidegate.recount()")]

    async def count(self, state: str) -> int:
        return int(await self.connection.fetchval("select count(*) from tidegate.job_status where state = $1", state))

    async def backend(self) -> int:
        return int(await self.connection.fetchval("select pg_backend_pid()"))


async def at_once(call: Awaitable[Any]) -> Any:
    """Await something that must not wait for a lock that somebody holds."""
    return await asyncio.wait_for(call, 5)


async def blocked(watcher: Any, backend: int) -> None:
    """Return when the backend waits for a lock; it is the database that says so."""

    async def waits() -> None:
        while not await watcher.fetchval("select cardinality(pg_blocking_pids($1)) > 0", backend):
            await asyncio.sleep(0)

    await asyncio.wait_for(waits(), 10)


async def instant_passed(watcher: Any, instant: datetime) -> None:
    """Return when the database's clock is past an instant."""
    await watcher.execute("select pg_sleep(greatest(0, extract(epoch from $1 - clock_timestamp())) + 0.001)", instant)


MakeConnection = Callable[..., Awaitable[Any]]
