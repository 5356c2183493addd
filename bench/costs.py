"""What statements cost in counts, which no other load on the machine changes: rows, pages, dead rows, bytes of log."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bench.claimants import Claimant

# What this transaction did and the ones before it that are not reported yet: only a difference means something. The log
# is the server's, so nobody else may write.
_COUNTS = """
select (select sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))
          from pg_stat_xact_user_tables where schemaname = $1)::bigint rows,
       (select sum(n_tup_upd + n_tup_del) from pg_stat_xact_user_tables where schemaname = $1)::bigint dead,
       (select sum(pg_stat_get_xact_blocks_fetched(c.oid)) from pg_class c
         where c.relnamespace = $1::regnamespace and c.relkind in ('r', 'i'))::bigint buffers,
       pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint wal
"""


@dataclass(slots=True)
class Costs:
    """Rows read, row versions made dead, pages of tables and indexes touched, and bytes of log written."""

    rows: int = 0
    dead: int = 0
    buffers: int = 0
    wal: int = 0

    def __add__(self, other: "Costs") -> "Costs":
        """Return both together."""
        return Costs(self.rows + other.rows, self.dead + other.dead, self.buffers + other.buffers, self.wal + other.wal)


@asynccontextmanager
async def counted(connection: Any, schema: str = "tidegate") -> AsyncIterator[Costs]:
    """Run the block in one transaction and count what it does to the tables of a schema."""
    costs = Costs()
    async with connection.transaction(isolation="read_committed"):
        before = await connection.fetchrow(_COUNTS, schema)
        yield costs
        after = await connection.fetchrow(_COUNTS, schema)
        for name in ("rows", "dead", "buffers", "wal"):
            setattr(costs, name, after[name] - before[name])


async def count_claim(claimant: Claimant) -> Costs:
    """Count one claim, and finish what it brought."""
    async with counted(claimant.connection) as costs:
        jobs = await claimant.claim()
    await claimant.put_away(jobs)
    return costs
