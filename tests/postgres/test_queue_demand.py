"""The view ``queue_demand``: what limits would let start, beside a model that counts every job, and at its price."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from tests.postgres.claimants import Claimant, instant_passed
from tests.postgres.demand_model import Demand, expected

QUEUES = ("a", "b", "c")
KEYS = ("", "k0", "k1", "k2", "k3")
VIEW = "select * from tidegate.queue_demand"

Connect = Callable[[], Awaitable[Any]]


async def seen(connection: Any) -> dict[str, Demand]:
    found = {}
    for row in await connection.fetch(VIEW):
        blocked_by = [(b["key"], b["jobs"], b["by"]) for b in json.loads(row["blocked_by"])]
        found[row["queue"]] = Demand(
            row["suspended"], row["running"], row["waiting"], row["runnable"], tuple(blocked_by)
        )
        held_back = 0 if row["suspended"] else row["waiting"] - row["runnable"]
        assert (row["demand"], row["blocked"]) == (row["running"] + row["runnable"], held_back)
        assert (row["runnable_since"] is None) == (row["runnable"] == 0)
    return found


async def runnable(connection: Any) -> dict[str, int]:
    """What is runnable of the queues where something waits."""
    return {row["queue"]: row["runnable"] for row in await connection.fetch(VIEW) if row["waiting"]}


async def test_it_says_what_the_model_says_whatever_happened(claimants: list[Claimant], connect: Connect) -> None:
    watcher, bystander = await connect(), await connect()
    mailed = lent = 0
    reasons = set()
    for seed in range(8):
        chance = Random(seed)  # noqa: S311 - scenes, no secrets
        for _ in range(12):
            await happening(chance, claimants, bystander)
            mailed += await watcher.fetchval("select count(*) from tidegate.key_mail")
            there, model = await both(watcher)
            assert there == model, f"seed {seed}"
            lent += sum(0 < demand.runnable < demand.waiting for demand in there.values())
            reasons |= {by for demand in there.values() for _, _, by in demand.blocked_by}
    # the scenes were worth it: finishes that only the mail knows, keys that bind in part, both reasons
    assert mailed > 0
    assert lent > 20
    assert reasons == {"MaxRunning", "Rate"}


async def both(watcher: Any) -> tuple[dict[str, Demand], dict[str, Demand]]:
    """View and model of one moment: no retry fell due between, since the model says the same before and after."""
    while True:
        before, there = await expected(watcher), await seen(watcher)
        if before == await expected(watcher):
            return there, before


async def happening(chance: Random, claimants: list[Claimant], bystander: Any) -> None:
    """A few random acts of producers, workers and owners of limits, some of them while a key is locked."""
    who = chance.choice(claimants)
    for _ in range(chance.randint(1, 4)):
        await who.put(chance.choice((*QUEUES, "new")), chance.choice(KEYS), chance.randint(1, 12))
    if chance.random() < 0.6:
        rate = {"max_starts": chance.randint(0, 30), "window_ms": chance.choice((20_000, 60_000, 600_000))}
        shape: list[dict[str, Any]] = [rate, {**rate, "max_running": chance.randint(0, 9)}, {}]
        changes = chance.choice(shape) or {"max_running": chance.randint(0, 15), "max_starts": None, "window_ms": None}
        await who.limit(chance.choice(KEYS[1:]), **{"max_running": None, **changes})
    if chance.random() < 0.3:
        at = await who.now() + timedelta(milliseconds=3)
        await who.put(chance.choice(QUEUES), chance.choice(KEYS), chance.choice((3, 120)), run_at=at)
        await instant_passed(bystander, at)
    if chance.random() < 0.2:
        changes = {chance.choice(("suspended", "held_by_hand")): chance.random() < 0.5}
        await bystander.execute("select tidegate.set_queue($1, $2)", chance.choice(QUEUES), json.dumps(changes))
    taken = await who.claim(chance.choice(QUEUES), chance.randint(1, 20))
    transaction = bystander.transaction()
    await transaction.start()
    if chance.random() < 0.5:
        await bystander.fetch("select from tidegate.keys where key = any($1) for update", list(KEYS[::2]))
    done = taken[: chance.randint(0, len(taken))]
    await chance.choice((who.ack, who.nack, who.release))(done, wake=False)
    await transaction.rollback()
    if chance.random() < 0.3:
        await who.connection.fetchval("select tidegate.fold($1)", chance.choice(QUEUES))
    # ages and spans that lie seconds from every bound, so that two clocks judge them alike
    for table in ("limit_starts", "history"):
        await who.connection.execute(_AGES[table], [chance.choice((5, 15, 25, 45, 205)) for _ in range(7)])


_AGES = {
    "limit_starts": """update tidegate.limit_starts set started_at = clock_timestamp()
                       - make_interval(secs => ($1::int[])[1 + (hashtext(key || n::text) & 3)])""",
    "history": """update tidegate.history set started_at = finished_at
                  - make_interval(secs => ($1::int[])[1 + id % 7] / 10.0) where started_at is not null""",
}


async def test_a_keys_room_is_given_out_once_over_its_queues(claimants: list[Claimant], connection: Any) -> None:
    (one, *_) = claimants
    await one.limit("vendor", 4)
    await one.put("a", "vendor", 30)
    await one.put("b", "vendor", 10)
    assert await runnable(connection) == {"a": 3, "b": 1}
    await one.claim("a", 3)
    # one place is left, and it goes where least of the key runs
    assert await runnable(connection) == {"a": 0, "b": 1}
    await one.claim("b", 1)
    assert await runnable(connection) == {"a": 0, "b": 0}
    blocked = await connection.fetch(f"{VIEW} where waiting > 0 order by queue")
    assert [(row["demand"], row["blocked"]) for row in blocked] == [(3, 27), (1, 9)]
    assert json.loads(blocked[0]["blocked_by"]) == [{"key": "vendor", "jobs": 27, "by": "MaxRunning"}]


async def test_a_suspended_queue_asks_for_nothing_and_leaves_its_part_to_others(
    claimants: list[Claimant], connection: Any
) -> None:
    (one, *_) = claimants
    await one.limit("vendor", 4)
    await one.put("a", "vendor", 30)
    await one.put("a", "", 5)
    await one.put("b", "vendor", 10)
    await connection.execute("""select tidegate.set_queue('a', '{"held_by_hand": true}')""")
    found = await seen(connection)
    assert found["a"] == Demand(suspended=True, running=0, waiting=35, runnable=0, blocked_by=())
    assert found["b"].runnable == 4


async def test_a_rate_asks_for_what_can_run_side_by_side(claimants: list[Claimant], connection: Any) -> None:
    (one, *_) = claimants
    await one.limit("vendor", max_starts=100, window_ms=60_000)
    await one.put("a", "vendor", 500)
    # nobody knows how long they run: all that may start
    assert await runnable(connection) == {"a": 100}
    done = await one.claim("a", 8)
    await one.ack(done)
    await connection.execute("update tidegate.history set started_at = finished_at - interval '3 seconds'")
    # 100 a minute of 3 s each keep 5 slots busy; more would start at once and then wait for the window
    assert await runnable(connection) == {"a": 5}
    await one.claim("a", 2)
    assert await runnable(connection) == {"a": 3}
    await connection.execute("truncate tidegate.history")
    # 2 run after 10 starts: at 100 starts 20 would
    assert await runnable(connection) == {"a": 18}
    await one.limit("vendor", max_starts=10, window_ms=60_000)
    assert await runnable(connection) == {"a": 0}
    # these leave the window while a pod starts
    await connection.execute("update tidegate.limit_starts set started_at = started_at - interval '31 seconds'")
    assert await runnable(connection) == {"a": 0}
    await one.limit("vendor", max_starts=40, window_ms=60_000)
    assert await runnable(connection) == {"a": 6}


async def test_a_job_of_a_queue_that_nobody_serves_is_seen(claimants: list[Claimant], connection: Any) -> None:
    (one, *_) = claimants
    at = await one.now() + timedelta(milliseconds=3)
    await one.put("nobody", "", 1, run_at=at)
    await instant_passed(connection, at)
    assert await runnable(connection) == {"nobody": 1}
    await one.put("nobody", "", 2, run_at=at + timedelta(hours=1))
    assert await runnable(connection) == {"nobody": 1}


@pytest.fixture
async def backlog(connection: Any) -> None:
    """100,000 ready jobs of 1,000 keys, every second of which is rated, and 5,000 that fell due unpromoted."""
    await connection.execute("""
        insert into tidegate.jobs(queue, actor, limit_key, group_key)
        select 'q' || g % 5, 'x', 'key-' || g % 1000, '' from generate_series(1, 100000) g""")
    await connection.execute("""
        insert into tidegate.jobs(queue, actor, limit_key, group_key, state, run_at)
        select 'q0', 'x', 'key-' || g % 1000, '', 'scheduled', now() + interval '2 seconds'
          from generate_series(1, 5000) g""")
    await connection.execute("""
        select tidegate.change_limit('key-' || g, case g % 2 when 0 then '{"max_running": 4}'
               else '{"max_running": 9, "max_starts": 100, "window_ms": 60000}' end::jsonb)
          from generate_series(0, 999) g""")
    await connection.execute("analyze")
    await instant_passed(connection, await connection.fetchval("select max(run_at) from tidegate.jobs"))


@pytest.mark.usefixtures("backlog")
async def test_it_reads_lanes_and_keys_never_the_backlog(connection: Any) -> None:
    # five queues of 200 keys each: a row of mail for each lane, and one for what is scheduled; looked at twice
    assert await rows_read(connection) == {"jobs": 100, "lanes": 0, "lane_mail": 2 * 1001, "keys": 1000}
    await connection.execute("select tidegate.ensure_queue('q' || g) from generate_series(0, 4) g")
    while await connection.fetchval("select max(tidegate.fold('q' || g)) from generate_series(0, 4) g"):
        pass
    assert await rows_read(connection) == {"jobs": 100, "lanes": 1000, "lane_mail": 0, "keys": 1000}


async def rows_read(connection: Any) -> dict[str, int]:
    """Rows that scans of one look at the view returned, by table, in the database's own count."""
    async with connection.transaction():
        before = dict(await connection.fetch(_ROWS_READ))
        assert sum((await runnable(connection)).values()) == 500 * 4 + 500 * 9
        return {table: n - before[table] for table, n in await connection.fetch(_ROWS_READ)}


_ROWS_READ = """
select relname, seq_tup_read + coalesce(idx_tup_fetch, 0) n from pg_stat_xact_user_tables
 where schemaname = 'tidegate' and relname in ('jobs', 'lanes', 'lane_mail', 'keys')
"""
