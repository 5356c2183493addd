"""Schedules that once broke something: each is the shortest that did."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from tests.postgres.claimants import Claimant, MakeConnection, at_once, blocked, instant_passed

EXPIRED = "update tidegate.workers set seen_at = seen_at - lease * 2 where id = $1"
LONG_CONTACT = """
update tidegate.workers
   set contact_since = contact_since - lease * 2, lease = '100 ms', seen_at = clock_timestamp() + interval '1 hour'
 where id = $1"""


def keys_and_priorities(rows: list[asyncpg.Record]) -> list[tuple[str, int]]:
    return sorted((row["limit_key"], row["priority"]) for row in rows)


async def test_a_cancelled_head_of_a_shared_group_does_not_block_the_queue(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.put("a", actor="x", priority=1)
    await other.put("a", actor="y", n=3)
    await one.claim("a", 1, actors=("none",))
    first = await other.connection.fetchval("select min(id) from tidegate.jobs")
    assert await other.connection.fetchval("select tidegate.cancel($1)", first) == "cancelled"
    assert len(await one.claim("a", 1, actors=("x", "y"))) == 1
    assert await other.drift() == []


async def test_no_worse_job_passes_behind_a_lane_that_turned_out_full(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.limit("full", 0)
    await other.put("a", "full", priority=9)
    await other.put("a", "c", priority=5)
    await other.put("a", "c", priority=0)
    await other.put("a", "d", priority=3)
    assert keys_and_priorities(await one.claim("a", 2)) == [("c", 5), ("d", 3)]


async def test_no_worse_job_passes_behind_a_busy_key_or_one_used_up(claimants: list[Claimant]) -> None:
    one, two, other = claimants
    await other.limit("busy", 5)
    await other.put("b", "busy")
    for queue, first in (("a", "busy"), ("c", "k")):
        await other.put(queue, first, group="t1", priority=9)
        await other.put(queue, first, group="t2", priority=8)
        await other.put(queue, "c", priority=5)
        await other.put(queue, "c", priority=0)
        await other.put(queue, "d", priority=3)
    async with two.connection.transaction():
        await two.claim("b")
        assert keys_and_priorities(await at_once(one.claim("a", 2))) == [("c", 5), ("d", 3)]
    await other.limit("k", 1)
    assert keys_and_priorities(await one.claim("c", 3)) == [("c", 5), ("d", 3), ("k", 9)]


async def test_a_lane_keeps_no_place_of_a_cancelled_head(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.put("a", "k", priority=9)
    await other.put("a", "k", priority=0)
    await other.put("a", "d", priority=5)
    await one.claim("a", 1, actors=("none",))
    await other.connection.fetchval("select tidegate.cancel(min(id)) from tidegate.jobs")
    assert keys_and_priorities(await one.claim("a")) == [("d", 5)]


@pytest.mark.parametrize("rival", ["rescue", "leave", "ack again"])
async def test_outcomes_lock_their_jobs_in_one_order(
    claimants: list[Claimant], connect: MakeConnection, rival: str
) -> None:
    one, two, holder = claimants
    watcher = await connect()
    await one.put("z", "filler", 3000)
    await watcher.execute("analyze tidegate.jobs")
    await one.put("a", "k", 3)
    first, second, third = sorted(await one.claim("a", 3), key=lambda row: row["id"])
    held = holder.connection.transaction()
    await held.start()
    await holder.connection.fetchval("select tidegate.cancel($1)", second["id"])
    backends = await one.backend(), await two.backend()
    back = asyncio.ensure_future(one.ack([third, second, first], wake=False))
    await blocked(watcher, backends[0])
    again = Claimant(two.connection, id=one.id)
    if rival == "rescue":
        await watcher.execute(EXPIRED, one.id)
        await watcher.execute(LONG_CONTACT, two.id)
        other = asyncio.ensure_future(two.connection.fetch("select * from tidegate.rescue($1)", two.id))
    elif rival == "leave":
        other = asyncio.ensure_future(two.connection.fetchval("select * from tidegate.leave($1)", one.id))
    else:
        other = asyncio.ensure_future(again.ack([first, second, third], wake=False))
    await blocked(watcher, backends[1])
    await held.rollback()
    await asyncio.gather(back, other)
    assert await holder.drift() == []


async def test_a_hand_in_passes_over_a_job_that_a_cancel_holds(claimants: list[Claimant]) -> None:
    one, two, holder = claimants
    await one.put("a", "k", 3)
    rows = await one.claim("a", 2)
    held = holder.connection.transaction()
    await held.start()
    await holder.connection.fetchval("select tidegate.cancel($1)", rows[0]["id"])
    assert len(await at_once(one.claim("a", 1, done=rows))) == 1
    assert one.hint is not None
    assert (one.hint["locked"], one.hint["stale"]) == ([rows[0]["id"]], None)
    assert await two.drift() == []
    await held.rollback()
    await one.claim("a", 1, done=rows)
    assert one.hint is not None
    assert (one.hint["locked"], one.hint["stale"]) == (None, [rows[1]["id"]])
    assert await two.count("succeeded") == 2


async def test_suspend_and_cancel_in_one_transaction_beside_a_hand_in(
    claimants: list[Claimant], connect: MakeConnection
) -> None:
    one, two, _ = claimants
    await one.put("a", "k", 2)
    rows = await one.claim("a", 1)
    held = two.connection.transaction()
    await held.start()
    await two.connection.execute("""select tidegate.set_queue('a', '{"suspended": true}')""")
    backend = await one.backend()
    hand_in = asyncio.ensure_future(one.claim("a", 1, done=rows))
    await blocked(await connect(), backend)
    assert await at_once(two.connection.fetchval("select tidegate.cancel($1)", rows[0]["id"])) == "cancelling"
    await held.commit()
    assert await hand_in == []
    assert await two.count("succeeded") == 1


async def test_enqueues_with_job_keys_lock_in_one_order(claimants: list[Claimant], connect: MakeConnection) -> None:
    one, two, holder = claimants
    watcher = await connect()

    def many(claimant: Claimant, keys: str) -> asyncio.Future[Any]:
        jobs = json.dumps([{"queue": "a", "actor": "x", "job_key": key} for key in keys])
        made: asyncio.Future[Any] = asyncio.ensure_future(
            claimant.connection.fetch("select * from tidegate.enqueue_many($1)", jobs)
        )
        return made

    held = holder.connection.transaction()
    await held.start()
    await holder.connection.fetch("select tidegate.enqueue('a', 'x', job_key => 'M')")
    backends = await one.backend(), await two.backend()
    first = many(one, "ZMA")
    await blocked(watcher, backends[0])
    second = many(two, "AMZ")
    await blocked(watcher, backends[1])
    await held.commit()
    made = await asyncio.gather(first, second)
    assert [[row["created"] for row in rows] for rows in made] == [[True, False, True], [False] * 3]
    assert [row["ordinal"] for row in made[0]] == [1, 2, 3]


async def test_a_cut_made_by_an_expired_head_does_not_end_the_claim(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.put("a", "k", size=900, priority=9, expires_at=await other.now())
    await other.put("a", "k", 2, size=900, priority=5)
    assert keys_and_priorities(await one.claim("a", 4, size=1000)) == [("k", 5)]
    await other.put("b", "k", 3, size=5000, priority=9, expires_at=await other.now())
    await other.put("b", "k", size=10)
    assert keys_and_priorities(await one.claim("b", 4, size=1000)) == [("k", 0)]


async def test_a_weight_set_while_its_queue_comes_into_being_counts(claimants: list[Claimant]) -> None:
    one, two, other = claimants
    held = two.connection.transaction()
    await held.start()
    await two.limit("w", None, weight=4)
    await other.order("fair", "new")
    await other.put("new", "w", 8)
    await other.put("new", "v", 8)
    assert len(await one.claim("new", 2)) == 2
    await held.commit()
    await other.connection.execute("call tidegate.maintain($1)", other.id)
    assert Counter(row["limit_key"] for row in await one.claim("new", 8)) == {"w": 8}
    assert await other.drift() == []


async def test_a_weight_set_while_the_first_claim_of_a_queue_is_open_counts(
    claimants: list[Claimant], connect: MakeConnection
) -> None:
    one, two, other = claimants
    watcher: Any = await connect()
    await other.put("new", "w", 8)
    await other.put("new", "v", 8)
    backend = await two.backend()
    claiming = one.connection.transaction()
    await claiming.start()
    # the claim holds the key "w" alone
    assert len(await one.claim("new", 1, fair=True)) == 1
    weighing = asyncio.ensure_future(two.limit("v", None, weight=4))
    while not weighing.done() and not await watcher.fetchval("select pg_blocking_pids($1) <> '{}'", backend):
        await asyncio.sleep(0)
    await claiming.commit()
    await weighing
    assert Counter(row["limit_key"] for row in await one.claim("new", 9, fair=True)) == {"v": 8, "w": 1}
    assert await other.drift() == []


async def test_a_retried_head_stands_where_its_new_instant_puts_it(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.put("a", "first")
    await other.put("a", "second")
    await one.claim("a", 1, actors=("none",))
    head = await other.connection.fetchval("select min(id) from tidegate.jobs")
    await other.connection.fetchval("select tidegate.cancel($1)", head)
    await other.connection.fetchval("select tidegate.retry($1)", head)
    assert [row["limit_key"] for _ in range(2) for row in await one.claim("a")] == ["second", "first"]


async def test_a_worker_that_left_sleeps_on_nothing(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await one.connection.fetchval("select * from tidegate.leave($1)", one.id)
    await one.connection.execute("select tidegate.sleep_on($1, '{a}')", one.id)
    assert await other.connection.fetchval("select count(*) from tidegate.sleepers") == 0


async def test_a_worker_that_is_leaving_does_not_fall_asleep(
    claimants: list[Claimant], connect: MakeConnection
) -> None:
    one, two, other = claimants
    left = two.connection.transaction()
    await left.start()
    await two.connection.fetch("select * from tidegate.leave($1)", one.id)
    backend = await one.backend()
    sleeping = asyncio.ensure_future(one.connection.execute("select tidegate.sleep_on($1, '{a}')", one.id))
    await blocked(await connect(), backend)
    await left.commit()
    await sleeping
    assert await other.connection.fetchval("select count(*) from tidegate.sleepers") == 0


async def test_clear_limit_and_set_limit_lock_in_one_order(claimants: list[Claimant], connect: MakeConnection) -> None:
    one, two, holder = claimants
    watcher = await connect()
    await one.limit("k", 3)
    held = holder.connection.transaction()
    await held.start()
    await holder.connection.execute("select from tidegate.keys where key = 'k' for no key update")
    backends = await one.backend(), await two.backend()
    clearing = asyncio.ensure_future(one.connection.fetchval("select tidegate.clear_limit('k')"))
    await blocked(watcher, backends[0])
    setting = asyncio.ensure_future(two.limit("k", 4))
    await blocked(watcher, backends[1])
    await held.rollback()
    assert (await asyncio.gather(clearing, setting))[0] is True


async def test_a_heartbeat_forgets_no_claim_that_commits_beside_it(
    claimants: list[Claimant], connect: MakeConnection
) -> None:
    one, two, holder = claimants
    watcher = await connect()
    await one.limit("k", 2)
    await one.put("a", "k", 4)
    (lost,) = await one.claim("a", number=1)
    cancelling = holder.connection.transaction()
    await cancelling.start()
    await holder.connection.execute("select tidegate.cancel($1)", lost["id"])
    late = two.connection.transaction()
    await late.start()
    assert len(await Claimant(two.connection, id=one.id).claim("a", number=2)) == 1
    beat = "select * from tidegate.heartbeat($1, '{}', '{}', 3, true)"
    backend = await one.backend()
    beating = asyncio.ensure_future(one.connection.fetchrow(beat, one.id))
    await blocked(watcher, backend)
    await late.commit()
    await cancelling.commit()
    await beating
    await one.connection.fetchrow(beat, one.id)
    assert await holder.count("running") == 0, "both claims went back, the one that came late too"
    assert await holder.drift() == []


async def test_who_settles_a_key_tells_the_queues_that_wait(claimants: list[Claimant], connect: MakeConnection) -> None:
    one, two, three = claimants
    four = Claimant(await connect())
    await four.register()
    await one.limit("k", 1)
    soon = await one.now() + timedelta(milliseconds=300)
    await one.put("a", "k", expires_at=soon)
    await one.put("c", "k")
    await one.claim("a")
    assert await three.claim("c") == []
    held = two.connection.transaction()
    await held.start()
    await two.put("b", "k")
    assert await two.claim("b") == []
    assert await one.connection.fetchval("select * from tidegate.leave($1)", one.id) == 1
    await held.rollback()
    await instant_passed(four.connection, soon)
    assert await four.claim("a") == [], "its only job has expired; it settled the key"
    assert len(await three.claim("c")) == 1


async def test_a_rate_of_zero_asks_for_no_further_claim(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.limit("r", None, max_starts=0, window_ms=3_600_000)
    await other.put("a", "r", 2)
    for _ in range(3):
        assert await one.claim("a", 8) == []
        assert one.hint is not None
        assert one.hint["next_at"] is None


async def test_room_and_budget_count_what_started_in_earlier_rounds(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    now = await other.now()
    await other.connection.execute(
        "insert into tidegate.keys(key) values ('k1'), ('k2'), ('k3'), ('k4') on conflict do nothing"
    )
    await other.put("a", "k1", actor="x", priority=9)
    await other.put("a", "k2", actor="y", priority=8, expires_at=now)
    await other.put("a", "k3", actor="y", priority=7)
    await other.put("a", "k4", actor="x", priority=6)
    got = await one.claim("a", 3, actors=("x", "y"), rooms=(1, 3))
    assert sorted(row["actor"] for row in got) == ["x", "y"]
    await other.put("b", "k1", size=300, priority=9)
    await other.put("b", "k2", size=300, priority=8, expires_at=now)
    await other.put("b", "k3", size=900, priority=7)
    assert sum(row["bytes"] for row in await one.claim("b", 2, size=1000)) <= 1000


async def test_a_cancel_in_an_open_transaction_stalls_no_queue(claimants: list[Claimant]) -> None:
    one, two, other = claimants
    await other.put("a", "k", 4)
    running = await one.claim("a")
    waiting = await other.connection.fetchval("select max(id) from tidegate.jobs")
    async with other.connection.transaction():
        await other.connection.fetchval("select tidegate.cancel($1)", running[0]["id"])
        await other.connection.fetchval("select tidegate.cancel($1)", waiting)
        assert len(await at_once(one.claim("a", done=running))) == 1
        assert len(await at_once(two.claim("a"))) == 1
    assert await other.drift() == []


async def test_a_fold_that_makes_a_lane_ranks_the_other_groups_too(claimants: list[Claimant]) -> None:
    one, two, other = claimants
    actors = ("x", "y")
    await other.order("fair")
    for actor in actors:
        await other.put("a", "k", 3, actor=actor)
        await other.put("a", "l", 2, actor=actor)
    got = await one.claim("a", 3, actors=actors)
    await one.ack([row for row in got if row["limit_key"] == "k"])
    await other.put("a", "new", 1, actor="z")
    await two.claim("a", 1, actors=("none",))
    again = [row["limit_key"] for _ in range(2) for row in await one.claim("a", 1, actors=actors)]
    assert again[0] == "k", "l runs one, k none"
    assert await other.drift() == []


async def test_the_lowest_priority_is_a_priority(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    for priority in (-32768, 32767, 0):
        await other.put("a", "k", priority=priority)
    assert [(await one.claim("a"))[0]["priority"] for _ in range(3)] == [32767, 0, -32768]


async def test_low_waters_of_another_server_hide_no_mail(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.limit("k", 1)
    await other.put("a", "k", 2)
    running = await one.claim("a", 2)
    await other.connection.execute("update tidegate.queues set folded = '9999999999'")
    await other.connection.execute("update tidegate.keys set folded = '9999999999'")
    await one.ack(running)
    await other.put("a", "l")
    assert len(await one.claim("a", 4)) == 2
    assert await other.drift() == []


async def test_a_repair_keeps_new_weights_and_queues_without_a_row(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.put("later", "k", 2, run_at=await other.now() + timedelta(hours=1))
    await other.order("fair", "b")
    await other.put("b", "heavy", 8)
    await other.put("b", "light", 8)
    await one.claim("b", 1, actors=("none",))
    await other.limit("heavy", None, weight=3)
    await other.connection.execute("select * from tidegate.recount(true)")
    got = await one.claim("b", 4)
    assert sorted(row["limit_key"] for row in got) == ["heavy", "heavy", "heavy", "light"]
    await other.order("fair", "later")
    status = "select scheduled from tidegate.queue_status where name = 'later'"
    assert await other.connection.fetchval(status) == 2
    assert await other.drift() == []


async def test_a_repair_counts_outcomes_that_come_beside_it_once(
    claimants: list[Claimant], connect: MakeConnection
) -> None:
    one, two, holder = claimants
    watcher: Any = await connect()
    await one.limit("k", 2)
    await one.put("a", "k", 10)
    running = await one.claim("a", 2)
    held = holder.connection.transaction()
    await held.start()
    await holder.connection.execute("lock table tidegate.gates in share mode")
    backend = await two.backend()
    repairing = asyncio.ensure_future(two.connection.fetch("select * from tidegate.recount(true)"))
    await blocked(watcher, backend)
    outcome = await one.ack(running, wake=False)
    await held.commit()
    await repairing
    await one.wake(outcome["wake"])
    assert len(await one.claim("a", 8)) == 2
    assert await one.drift() == []


async def test_what_finishes_before_its_lane_is_made_again_counts(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.limit("k", 3)
    await other.put("a", "k", 4)
    await other.put("a", "l", 4)
    running = await one.claim("a", 5)
    await other.connection.execute("delete from tidegate.lanes where limit_key = 'k'")
    await other.connection.execute("select * from tidegate.recount(true)")
    assert len(await one.claim("a", 8, done=running)) == 3
    assert await other.drift() == []
