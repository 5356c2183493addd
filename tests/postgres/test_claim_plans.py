"""How much the functions read beside 100,000 jobs: no table from end to end, and few rows and pages, whatever waits.

Their plans are generic. One session makes them from statistics; another made them while the tables were empty and keeps
them, as a worker's connection does that was there before the first job. EXPLAIN does not show the plans inside of
functions: what Postgres counts for each table and index tells whether the right one was taken.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.postgres.claimants import Claimant

JOBS = 100_000
KEYS = 1_000
SLOTS = 8

LARGE = ("jobs", "lanes", "keys", "history", "gates", "lane_mail")
"""Tables that grow with the work: none of them may ever be read from end to end."""

ROWS = 150
PAGES = 700
"""The most that a call may read for eight jobs; 114 and 592 were seen, the pages of all indexes written included."""

# a tenth each: jobs of one full key, and of an actor without room; the rest is free
_LOAD = """
insert into tidegate.jobs(queue, actor, limit_key, group_key, payload, run_at)
select 'a', case when g % 10 = 0 then 'full' else 'x' end, key, key, '{}',
       clock_timestamp() - interval '1 hour' + g * interval '1 us'
  from generate_series(1, $1::int) g, lateral (select case when g % 10 = 1 then 'full' else 'key-' || g % $2 end key) k
"""

_LIMITS = """
select tidegate.change_limit('key-' || g, '{"max_running": 1000}') from generate_series(0, $1::int - 1) g
"""

# pending counts of earlier transactions are in both looks; a report comes between transactions, never inside of one
_COUNTS = """
select c.relname, case when c.relkind = 'r' then pg_stat_get_xact_numscans(c.oid) else 0 end scans,
       case when c.relkind = 'r' then coalesce(t.seq_tup_read, 0) + coalesce(t.idx_tup_fetch, 0) else 0 end rows,
       pg_stat_get_xact_blocks_fetched(c.oid) pages
  from pg_class c left join pg_stat_xact_user_tables t on t.relid = c.oid
 where c.relnamespace = 'tidegate'::regnamespace and c.relkind in ('r', 'i')
"""


@dataclass
class Reads:
    """What one call read: large tables from end to end, rows of tables, pages of tables and indexes."""

    whole: set[str]
    rows: int
    pages: int


async def counted(connection: Any, call: Callable[[], Awaitable[Any]]) -> tuple[Any, Reads]:
    async with connection.transaction(isolation="read_committed"):
        before = {row["relname"]: row for row in await connection.fetch(_COUNTS)}
        result = await call()
        after = {row["relname"]: row for row in await connection.fetch(_COUNTS)}
    rows, pages = (sum(after[name][what] - before[name][what] for name in before) for what in ("rows", "pages"))
    return result, Reads({name for name in LARGE if after[name]["scans"] > before[name]["scans"]}, rows, pages)


async def walk(claimant: Claimant) -> dict[str, Reads]:
    """Make every call that a worker makes for its jobs, and return what each of them read."""
    read: dict[str, Reads] = {}

    async def see(name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        result, read[name] = await counted(claimant.connection, call)
        return result

    async def claim(done: Any = None) -> Any:
        return await claimant.claim(slots=SLOTS, actors=("full", "x"), rooms=(0, SLOTS), done=done)

    # the first one meets the full key, closes its lane, and looks again
    rows = await claim()
    rows = await see("claim and hand in", lambda: claim(rows))
    await see("ack", lambda: claimant.ack(rows))
    await claimant.connection.execute("select tidegate.fold('a')")
    rows = await see("claim", claim)
    await see("nack", lambda: claimant.nack(rows[:4]))
    await see("release", lambda: claimant.release(rows[4:]))
    await see("fold", lambda: claimant.connection.execute("select tidegate.fold('a')"))
    await see("put", lambda: claimant.put(key="key-7", n=SLOTS))
    await see("claim after mail", claim)
    return read


async def load(claimant: Claimant) -> None:
    await claimant.connection.fetch(_LIMITS, KEYS)
    await claimant.limit("full", 0)
    await claimant.connection.execute(_LOAD, JOBS, KEYS)
    while await claimant.connection.fetchval("select tidegate.fold('a')"):
        pass


def too_much(read: dict[str, Reads]) -> dict[str, Reads]:
    return {call: reads for call, reads in read.items() if reads.whole or reads.rows > ROWS or reads.pages > PAGES}


@pytest.mark.parametrize("order", ["priority", "fair"])
async def test_no_call_of_a_worker_reads_what_waits(connect: Any, order: str) -> None:
    claimant = Claimant(await connect())
    await claimant.register("a")
    await claimant.order(order, "a")
    await load(claimant)
    await claimant.connection.execute("vacuum (analyze) tidegate.jobs, tidegate.lanes, tidegate.keys")
    assert too_much(await walk(claimant)) == {}


async def test_no_session_that_was_there_before_the_jobs_reads_what_waits(connect: Any) -> None:
    early = Claimant(await connect())
    await early.register("a")
    await early.order("fair", "a")
    await early.put(key="key-1", n=2 * SLOTS + 2)
    await walk(early)
    # no statistics: they would make this session plan anew
    await load(early)
    assert too_much(await walk(early)) == {}


async def test_what_is_not_due_yet_is_not_read_for_what_is(connect: Any) -> None:
    claimant = Claimant(await connect())
    await claimant.register("a")
    execute = claimant.connection.execute
    await execute(
        "insert into tidegate.jobs(queue, actor, limit_key, state, run_at, expires_at)"
        " select 'a', 'x', 'k', 'scheduled', now() + interval '1 day' * n, now() + interval '2 years'"
        " from generate_series(1, 20000) n"
    )
    await execute("call tidegate.maintain($1)", claimant.id)
    await claimant.claim()
    await execute(
        "insert into tidegate.jobs(queue, actor, limit_key, state, run_at)"
        " values ('a', 'x', 'k', 'scheduled', clock_timestamp() + interval '1 ms')"
    )
    await execute("select pg_sleep(0.005)")
    rows, read = await counted(claimant.connection, claimant.claim)
    assert len(rows) == 1
    _, sweep = await counted(
        claimant.connection,
        lambda: execute("select tidegate.sweep_queue('a', 1000), tidegate.sweep_history(1000)"),
    )
    assert too_much({"claim": read, "sweep": sweep}) == {}
