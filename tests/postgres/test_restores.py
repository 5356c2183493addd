"""A dump restored on another server: transaction ids begin anew there, jobs and limits go on."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import asyncpg

from tests.postgres.claimants import Claimant, Rows
from tests.schema_dump import migrated
from tidegate.store.embedded import find_binaries, temporary_server

AHEAD = 3_000
"""Transaction ids by which the dumped server is ahead of the one that takes the dump."""


def restore(old: str, new: str, archive: Path) -> None:
    subprocess.run([find_binaries() / "pg_dump", "-Fc", "-f", archive, old], check=True)
    subprocess.run([find_binaries() / "pg_restore", "-d", new, archive], check=True)


async def pass_xid(connection: Any, xid: int) -> None:
    """Spend transaction ids up to this one."""
    await connection.execute(
        f"do $$ begin while pg_current_xact_id()::text::bigint <= {xid:d} loop commit; end loop; end $$"
    )


async def current_xid(connection: Any) -> int:
    return int(await connection.fetchval("select pg_current_xact_id()::text::bigint"))


async def finish_beside_a_held_key(one: Claimant, rows: Rows, other: Any) -> None:
    """Finish a job while somebody holds its key, so that lane and key get mail."""
    async with other.transaction():
        await other.fetch("select from tidegate.keys where key = 'k' for update")
        assert (await one.ack(rows, wake=False))["wake"] == ["k"]


async def test_a_dump_goes_on_where_transaction_ids_are_smaller(tmp_path: Path) -> None:
    """Mail that was written before the new server's ids came near the old one's is found when they are past them."""
    with temporary_server() as old, temporary_server() as new:
        await migrated(old.url)
        connection, beside = await asyncpg.connect(old.url), await asyncpg.connect(old.url)
        await pass_xid(connection, await current_xid(connection) + AHEAD)
        one = Claimant(connection)
        await one.register()
        await one.limit("k", 1)
        await one.put("a", "k", 3)
        await finish_beside_a_held_key(one, await one.claim("a"), beside)
        running = await one.claim("a", 2)
        dumped = await current_xid(connection)
        await connection.close()
        await beside.close()
        restore(old.url, new.url, tmp_path / "dump")

        one.connection, beside = await asyncpg.connect(new.url), await asyncpg.connect(new.url)
        await finish_beside_a_held_key(one, running, beside)
        await one.put("a", "l", 4)
        assert await current_xid(beside) < dumped
        await pass_xid(beside, dumped)
        await one.renew()
        await one.connection.execute("call tidegate.maintain($1)", one.id)
        assert sorted(row["limit_key"] for row in await one.claim("a", 8)) == ["k", "l", "l", "l", "l"]
        assert await one.drift() == []
        await one.connection.close()
        await beside.close()
