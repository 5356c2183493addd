"""Schedules in which locking and counting go wrong, forced by held transactions on plain connections."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from tests.postgres.claimants import Claimant, at_once, blocked, instant_passed
from tests.postgres.controls import Control, plant

PAUSE = Control(
    "waits for whoever holds the advisory lock 1, after the claim locked its keys and before it counts their mail",
    {"settle_keys": (("\nbegin\n", "\nbegin\n  perform pg_advisory_xact_lock(1);\n"),)},
    frozenset(),
)


@pytest.mark.parametrize("order", ["priority", "fair"])
@pytest.mark.parametrize(("first", "second"), [("a", "b"), ("b", "a")])
async def test_two_queues_of_one_key_never_give_two(
    claimants: list[Claimant], order: str, first: str, second: str
) -> None:
    one, two, other = claimants
    await other.order(order)
    await other.limit("k", 1)
    await other.put(first, "k", 3)
    await other.put(second, "k", 3)
    async with one.connection.transaction():
        mine = await one.claim(first)
        assert len(mine) == 1
        assert await at_once(two.claim(second)) == []
        assert two.hint is not None
        assert two.hint["next_at"] is not None, "a busy key is to be asked again soon"
    assert await at_once(two.claim(second)) == []
    assert await at_once(two.claim(second)) == []
    await one.ack(mine)
    # the first queue is not served again: its mail stays unfolded, and the key is free here at once
    ours = await at_once(two.claim(second))
    assert len(ours) == 1
    assert await at_once(one.claim(first)) == []
    next_one = await at_once(two.claim(second, done=ours))
    assert len(next_one) == 1
    await two.ack(next_one)
    assert len(await at_once(one.claim(first))) == 1
    assert await other.drift() == []


async def test_a_job_of_higher_priority_committed_while_a_claim_waits_comes_first(claimants: list[Claimant]) -> None:
    one, two, holder = claimants
    await holder.limit("k", 1)
    await holder.put("a", "k", 3)
    transaction = holder.connection.transaction()
    await transaction.start()
    await holder.connection.execute("select from tidegate.queues where name = 'a' for update")
    backend = await one.backend()
    claim = asyncio.ensure_future(one.claim("a"))
    await blocked(two.connection, backend)
    await two.put("a", "k", priority=9)
    await transaction.commit()
    assert [row["priority"] for row in await claim] == [9]
    assert await two.claim("a", 3) == []
    assert await holder.drift() == []


async def test_a_policy_replaced_while_a_claim_waits_binds_it(claimants: list[Claimant]) -> None:
    one, two, holder = claimants
    await holder.limit("k", 5)
    await holder.put("a", "k", 5)
    transaction = holder.connection.transaction()
    await transaction.start()
    await holder.connection.execute("select from tidegate.queues where name = 'a' for update")
    backend = await one.backend()
    claim = asyncio.ensure_future(one.claim("a", 5))
    await blocked(two.connection, backend)
    await two.limit("k", 2)
    await transaction.commit()
    assert len(await claim) == 2
    await two.limit("k", 1)
    assert await one.claim("a", 5) == [], "a cap below what runs starts nothing"
    await two.connection.execute("select tidegate.clear_limit('k')")
    assert len(await one.claim("a", 5)) == 3
    assert await holder.drift() == []


async def test_a_claim_waiting_when_a_finish_rolls_back_starts_nothing(claimants: list[Claimant]) -> None:
    one, two, watcher = claimants
    await one.limit("k", 1)
    await one.put("a", "k", 2)
    running = await one.claim("a")
    transaction = one.connection.transaction()
    await transaction.start()
    # the finish comes with a claim: it holds the queue's row
    assert await one.claim("a", 0, done=running) == []
    backend = await two.backend()
    claim = asyncio.ensure_future(two.claim("a"))
    await blocked(watcher.connection, backend)
    await transaction.rollback()
    assert await claim == []
    await one.ack(running)
    assert len(await two.claim("a")) == 1
    assert await watcher.drift() == []


@pytest.mark.parametrize("changes", [{}, {"max_starts": 9, "window_ms": 60_000}])
async def test_a_start_is_dated_after_the_finish_that_made_room(
    claimants: list[Claimant], changes: dict[str, object]
) -> None:
    one, two, other = claimants
    await other.limit("k", 1, **changes)
    await other.put("a", "k")
    await other.put("b", "k")
    running = await one.claim("a")
    await plant(other.connection, PAUSE)
    transaction = other.connection.transaction()
    await transaction.start()
    await other.connection.execute("select pg_advisory_xact_lock(1)")
    backend = await two.backend()
    claim = asyncio.ensure_future(two.claim("b"))
    await blocked(other.connection, backend)
    await at_once(one.ack(running, wake=False))
    await transaction.rollback()
    assert len(await claim) == 1
    started = await other.connection.fetchval("select started_at from tidegate.jobs where state = 'running'")
    assert started >= await other.connection.fetchval("select finished_at from tidegate.history")
    assert await other.drift() == []


@pytest.mark.parametrize("known", [True, False])
async def test_a_held_set_limit_stalls_no_other_key(claimants: list[Claimant], *, known: bool) -> None:
    one, two, other = claimants
    await other.put("a", "k", 3, priority=5)
    await other.put("a", "other", 3)
    if known:
        await other.limit("k", 5)
    async with other.connection.transaction():
        await other.limit("k", 1)
        got = await at_once(one.claim("a", 2))
        assert [row["limit_key"] for row in got] == ["other", "other"]
        finished = await at_once(one.ack(got[:1]))
        assert finished["stale"] is None
    got = await at_once(two.claim("a", 3))
    assert [row["limit_key"] for row in got] == ["k", "other"]
    assert await other.drift() == []


async def test_a_rolled_back_set_limit_changes_nothing(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.limit("k", 1)
    await other.put("a", "k", 3)
    transaction = other.connection.transaction()
    await transaction.start()
    await other.limit("k", 3)
    await transaction.rollback()
    assert len(await one.claim("a", 3)) == 1
    assert await other.drift() == []


async def test_a_claim_in_flight_is_rescued_whole(claimants: list[Claimant], age_worker: AgeWorker) -> None:
    one, two, rescuer = claimants
    await rescuer.limit("k", 2)
    await rescuer.put("a", "k", 4)
    await age_worker(rescuer, rescuer=True)
    transaction = one.connection.transaction()
    await transaction.start()
    claimed = await one.claim("a", 2)
    await age_worker(one)
    # a claim in flight holds its worker's row: the rescue passes it over and finds it committed next time
    assert await at_once(rescuer.connection.fetch("select * from tidegate.rescue($1)", rescuer.id)) == []
    await transaction.commit()
    rescued = await at_once(rescuer.connection.fetch("select * from tidegate.rescue($1)", rescuer.id))
    assert [(row["worker"], row["jobs"]) for row in rescued] == [(one.id, 2)]
    assert len(await two.claim("a", 4)) == 2
    outcome = await one.ack(claimed)
    assert sorted(outcome["stale"]) == sorted(row["id"] for row in claimed), "the token does not hold them any more"
    with pytest.raises(asyncpg.NoDataFoundError, match="lease ran out"):
        await one.claim("a")
    assert await rescuer.drift() == []


async def test_a_claim_behind_a_rescue_finds_its_worker_dead(claimants: list[Claimant], age_worker: AgeWorker) -> None:
    one, watcher, rescuer = claimants
    await rescuer.put("a", "k", 4)
    await age_worker(rescuer, rescuer=True)
    await age_worker(one)
    transaction = rescuer.connection.transaction()
    await transaction.start()
    assert len(await rescuer.connection.fetch("select * from tidegate.rescue($1)", rescuer.id)) == 1
    backend = await one.backend()
    claim = asyncio.ensure_future(one.claim("a"))
    await blocked(watcher.connection, backend)
    await transaction.commit()
    with pytest.raises(asyncpg.NoDataFoundError):
        await claim
    assert await watcher.drift() == []


@pytest.mark.parametrize("winner", ["finish", "rescue"])
async def test_rescue_racing_a_finish_frees_the_key_once(
    claimants: list[Claimant], age_worker: AgeWorker, winner: str
) -> None:
    one, two, rescuer = claimants
    await rescuer.limit("k", 1)
    await rescuer.put("a", "k", 3)
    running = await one.claim("a")
    await age_worker(one)
    await age_worker(rescuer, rescuer=True)
    rescue = "select * from tidegate.rescue($1)"
    if winner == "finish":
        transaction = one.connection.transaction()
        await transaction.start()
        await one.ack(running, wake=False)
        backend = await rescuer.backend()
        waiting = asyncio.ensure_future(rescuer.connection.fetch(rescue, rescuer.id))
        await blocked(two.connection, backend)
        await transaction.commit()
        assert [row["jobs"] for row in await waiting] == [0]
        left = 2
    else:
        transaction = rescuer.connection.transaction()
        await transaction.start()
        await rescuer.connection.fetch(rescue, rescuer.id)
        backend = await one.backend()
        waiting = asyncio.ensure_future(one.ack(running, wake=False))
        await blocked(two.connection, backend)
        await transaction.commit()
        assert (await waiting)["stale"] == [running[0]["id"]]
        left = 3
    assert len(await two.claim("a", 3)) == 1, "one slot under the key, not two"
    assert await two.count("ready") == left - 1
    assert await two.drift() == []


@pytest.mark.parametrize("order", ["finish first", "close first"])
async def test_a_finish_while_a_gate_closes_wakes_the_queue(claimants: list[Claimant], order: str) -> None:
    one, two, other = claimants
    await other.limit("k", 1)
    await other.put("a", "k")
    await other.put("b", "k")
    running = await one.claim("a")
    closing = two.connection.transaction()
    await closing.start()
    if order == "close first":
        assert await two.claim("b") == []
        outcome = await at_once(one.ack(running, wake=False))
        assert outcome["wake"] == ["k"], "the key is busy: mail, and wake() after commit"
        await closing.commit()
        await one.wake(outcome["wake"])
    else:
        finishing = one.connection.transaction()
        await finishing.start()
        await one.ack(running, wake=False)
        assert await at_once(two.claim("b")) == [], "busy, not full"
        await finishing.commit()
        await closing.commit()
    assert len(await two.claim("b")) == 1
    assert await other.drift() == []


async def test_maintenance_wakes_for_a_caller_that_died_before_wake(claimants: list[Claimant]) -> None:
    one, two, other = claimants
    await other.limit("k", 1)
    await other.put("a", "k")
    await other.put("b", "k")
    running = await one.claim("a")
    async with two.connection.transaction():
        assert await two.claim("b") == []
        assert (await one.ack(running, wake=False))["wake"] == ["k"]
    assert await two.claim("b") == [], "the gate is closed and nobody told the queue"
    await other.connection.execute("call tidegate.maintain($1)", other.id)
    assert len(await two.claim("b")) == 1
    assert await other.drift() == []


async def test_the_first_use_of_a_key_by_two_workers_at_once(claimants: list[Claimant]) -> None:
    one, two, other = claimants
    await other.put("a", "new")
    await other.put("b", "new")
    async with one.connection.transaction():
        assert len(await one.claim("a")) == 1
        assert await at_once(two.claim("b")) == [], "a key that was not locked is skipped, never taken as unlimited"
    assert len(await two.claim("b")) == 1
    await other.limit("new", 2)
    await other.put("b", "new")
    assert await two.claim("b") == []
    assert await other.drift() == []


async def test_max_starts_holds_over_three_workers(claimants: list[Claimant]) -> None:
    other = claimants[2]
    await other.limit("k", None, max_starts=2, window_ms=400)
    for queue in "abc":
        await other.put(queue, "k", 4)
    starts: list[int] = []
    while len(starts) < 6:
        got = await asyncio.gather(*(each.claim(queue, 3) for each, queue in zip(claimants, "abc", strict=True)))
        starts += [row["id"] for rows in got for row in rows]
        hints = [each.hint["next_at"] for each in claimants if each.hint is not None]
        await instant_passed(other.connection, min(hint for hint in hints if hint is not None))
    marks = await other.connection.fetch(
        "select started_at from tidegate.jobs where state = 'running' order by started_at"
    )
    instants = [row["started_at"] for row in marks]
    assert len(instants) == len(starts) == 6
    window = timedelta(milliseconds=400)
    assert all(later - earlier >= window for earlier, later in zip(instants, instants[2:], strict=False))
    assert await other.drift() == []


async def test_an_outcome_whose_reply_was_lost_is_sent_again(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.put("a", "k", 4)
    running = await one.claim("a", 2)
    transaction = one.connection.transaction()
    await transaction.start()
    await one.claim("a", 2, done=running)
    await transaction.rollback()
    again = await one.claim("a", 2, done=running)
    assert len(again) == 2
    outcome = await one.ack(running)
    assert sorted(outcome["stale"]) == sorted(row["id"] for row in running), "counted once, harmless twice"
    await one.claim("a", 2, done=running)
    assert one.hint is not None
    assert sorted(one.hint["stale"]) == sorted(row["id"] for row in running)
    assert await other.count("succeeded") == 2
    assert await other.drift() == []


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_calls_that_lock_refuse_another_isolation_and_enqueue_does_not(
    connect: Callable[..., Awaitable[Any]], isolation: str
) -> None:
    claimant = Claimant(await connect(server_settings={"default_transaction_isolation": isolation}))
    await claimant.register()
    await claimant.put("a", "k", 2)
    await claimant.limit("k", 1)
    with pytest.raises(asyncpg.ActiveSQLTransactionError, match="READ COMMITTED"):
        await claimant.claim("a")
    with pytest.raises(asyncpg.ActiveSQLTransactionError):
        await claimant.connection.fetch("select * from tidegate.ack($1, '{1}', '{1}')", claimant.id)
    async with claimant.connection.transaction(isolation="read_committed"):
        assert len(await claimant.claim("a", 2)) == 1


async def test_a_suspended_queue_gives_nothing_and_a_resumed_one_goes_on(claimants: list[Claimant]) -> None:
    one, two, _ = claimants
    await one.put("a", "k", 2)
    for column in ("suspended", "held_by_hand"):
        await two.connection.execute(f"select tidegate.set_queue('a', '{{\"{column}\": true}}')")
        assert await one.claim("a") == []
        await two.connection.execute(f"select tidegate.set_queue('a', '{{\"{column}\": false}}')")
        assert len(await one.claim("a")) == 1


async def test_a_draining_worker_claims_nothing_but_may_hand_in(claimants: list[Claimant]) -> None:
    one, two, _ = claimants
    await one.put("a", "k", 2)
    running = await one.claim("a")
    assert await two.connection.fetchval("select tidegate.drain_worker($1)", one.id)
    assert await one.claim("a", 1, done=running) == []
    assert await one.count("succeeded") == 1
    assert len(await two.claim("a")) == 1


AgeWorker = Callable[..., Awaitable[None]]
EXPIRED = "update tidegate.workers set seen_at = seen_at - lease * 2 where id = $1"
LONG_CONTACT = """
update tidegate.workers
   set contact_since = contact_since - lease * 2, lease = '100 ms', seen_at = clock_timestamp() + interval '1 hour'
 where id = $1"""


@pytest.fixture
def age_worker(connect: Callable[[], Awaitable[Any]]) -> AgeWorker:
    """Let a worker's lease run out, or give a rescuer the long contact that it needs, by the rows that decide."""

    async def age(claimant: Claimant, *, rescuer: bool = False) -> None:
        connection = await connect()
        await connection.execute(LONG_CONTACT if rescuer else EXPIRED, claimant.id)

    return age
