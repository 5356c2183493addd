"""What becomes of a job after its claim: ack, nack, release, cancel, retry, heartbeat, leave and rescue."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from tests.postgres.claimants import Claimant, blocked


async def job(claimant: Claimant, number: int) -> asyncpg.Record:
    row: asyncpg.Record | None = await claimant.connection.fetchrow(
        "select * from tidegate.job_status where id = $1", number
    )
    assert row is not None
    return row


async def test_ack_moves_a_job_to_the_history_for_an_hour(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.put("a", "k")
    running = await one.claim()
    await one.ack(running)
    row = await job(one, running[0]["id"])
    assert row["state"] == "succeeded"
    assert row["keep_until"] - row["finished_at"] == timedelta(hours=1)
    assert row["attempt"] == 1
    assert await other.drift() == []


async def test_a_queue_that_keeps_nothing_leaves_no_trace(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.connection.execute("""select tidegate.set_queue('a', '{"keep_succeeded": 0, "keep_dead": 0}')""")
    await other.put("a", "k", 2)
    running = await one.claim("a", 2)
    await one.ack(running[:1])
    await one.nack(running[1:], retry=False)
    assert await other.connection.fetchval("select count(*) from tidegate.job_status") == 0
    assert await other.drift() == []


async def test_failed_attempts_back_off_and_end_dead(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.connection.execute("select tidegate.enqueue('a', 'x', max_attempts => 3)")
    seen = []
    running: list[asyncpg.Record] = []
    for attempt in (1, 2, 3):
        running = await one.claim()
        assert [row["attempt"] for row in running] == [attempt]
        outcome = await one.nack(running)
        row = await job(one, running[0]["id"])
        seen.append((row["state"], row["error"], outcome["dead"]))
        if attempt < 3:
            wait = row["run_at"] - await other.now()
            assert wait <= timedelta(seconds=2 ** (attempt - 1))
            await other.connection.execute("select tidegate.retry($1)", row["id"])
    number = running[0]["id"]
    assert seen == [("scheduled", "it broke", None), ("scheduled", "it broke", None), ("dead", "it broke", [number])]
    assert (await job(one, number))["keep_until"] > await other.now() + timedelta(days=13)
    assert await other.drift() == []


async def test_backoff_doubles_from_a_second_to_five_minutes_with_full_jitter(connection: Any) -> None:
    for attempt, most in ((1, 1), (2, 2), (5, 16), (9, 256), (10, 300), (1000, 300)):
        waits = await connection.fetch(
            "select extract(epoch from tidegate.backoff($1))::float8 s from generate_series(1, 300)", attempt
        )
        seconds = [row["s"] for row in waits]
        assert 0 <= min(seconds) < most * 0.1
        assert most * 0.9 < max(seconds) <= most


async def test_release_spends_no_attempt(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.limit("k", 1)
    await other.put("a", "k", 2)
    running = await one.claim()
    outcome = await one.release(running)
    assert outcome["stale"] is None
    again = await one.claim()
    assert (again[0]["id"], again[0]["attempt"]) == (running[0]["id"], 1)
    assert (await one.ack(running))["stale"] == [running[0]["id"]], "the old claim's token is void"
    assert await other.count("running") == 1
    assert await other.drift() == []


async def test_a_start_mark_stays_when_its_job_is_given_back(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.limit("k", None, max_starts=1, window_ms=3_600_000)
    await other.put("a", "k", 2)
    await one.release(await one.claim())
    assert await one.claim("a", 2) == []
    assert await other.drift() == []


async def test_cancel_ends_a_waiting_job_and_asks_a_running_one(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.put("a", "k", 2)
    await other.put("a", "k", 1, run_at=await other.now() + timedelta(hours=1))
    running = await one.claim()
    ids = [row["id"] for row in await other.connection.fetch("select id from tidegate.jobs order by id")]
    told = [await other.connection.fetchval("select tidegate.cancel($1)", number) for number in [*ids, 10**9]]
    assert told == ["cancelling", "cancelled", "cancelled", None]
    beat = await one.connection.fetchrow(
        "select * from tidegate.heartbeat($1, $2, $3, $4, true)", one.id, [ids[0]], [running[0]["claim"]], 10**9
    )
    assert beat is not None
    assert (beat["alive"], beat["cancelled"], beat["missing"], beat["returned"]) == (True, [ids[0]], None, 0)
    await one.nack(running)
    assert await other.count("cancelled") == 3
    assert await one.claim("a", 3) == []
    assert await other.drift() == []


async def test_retry_runs_a_dead_job_again_with_fresh_attempts(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.connection.execute("select tidegate.enqueue('a', 'x', '{\"n\": 1}', 'k', job_key => 'once')")
    dead = await one.claim()
    await one.nack(dead, retry=False)
    number = dead[0]["id"]
    retry = "select tidegate.retry($1)"
    await other.connection.execute("select tidegate.enqueue('a', 'x', job_key => 'once')")
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="job_key"):
        await other.connection.fetchval(retry, number)
    await one.ack(await one.claim())
    assert await other.connection.fetchval(retry, number) == "ready"
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="is ready already"):
        await other.connection.fetchval(retry, number)
    assert await other.connection.fetchval(retry, 10**9) is None
    again = await one.claim()
    assert (again[0]["id"], again[0]["attempt"], again[0]["payload"]) == (number, 1, '{"n": 1}')
    assert await other.drift() == []


async def test_a_retry_judges_the_job_as_it_is_when_its_turn_comes(claimants: list[Claimant]) -> None:
    one, two, other = claimants
    later = await other.now() + timedelta(hours=1)
    backend = await two.backend()

    async def behind(call: str, number: int) -> Any:
        """A retry that waits for `call` of another session, which commits once it waits."""
        held = one.connection.transaction()
        await held.start()
        await one.connection.fetchval(f"select tidegate.{call}($1)", number)
        retrying = asyncio.ensure_future(two.connection.fetchval("select tidegate.retry($1)", number))
        await blocked(other.connection, backend)
        await held.commit()
        return await retrying

    await other.put("a", "k", 2, run_at=later)
    first, second = [row["id"] for row in await other.connection.fetch("select id from tidegate.jobs order by id")]
    assert await behind("cancel", first) == "ready"
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="is ready already"):
        await behind("retry", second)
    assert sorted(row["id"] for row in await one.claim("a", 4)) == [first, second]
    assert await other.drift() == []


async def test_a_heartbeat_gives_back_what_never_reached_the_worker(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.limit("k", 2)
    await other.put("a", "k", 4)
    lost, held = await one.claim("a", number=1001), await one.claim("a", number=1002)
    beat = await one.connection.fetchrow(
        "select * from tidegate.heartbeat($1, $2, $3, $4, true)",
        one.id,
        [held[0]["id"], lost[0]["id"] + 1000],
        [1002, 1002],
        1003,
    )
    assert beat is not None
    assert (beat["returned"], beat["missing"]) == (1, [lost[0]["id"] + 1000])
    again = await one.claim("a", 3)
    assert [(row["id"], row["attempt"]) for row in again] == [(lost[0]["id"], 1)], "unspent, and its slot is free again"
    kept = await other.connection.fetch("select claim from tidegate.claims where claim between 1000 and 1003")
    assert [row["claim"] for row in kept] == [1002], "claims that are dealt with are forgotten"
    assert await other.drift() == []


async def test_a_claim_under_way_is_no_lost_claim(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.put("a", "k")
    await one.claim("a", number=2001)
    beat = await one.connection.fetchrow("select * from tidegate.heartbeat($1, '{}', '{}', 2001, true)", one.id)
    assert beat is not None
    assert beat["returned"] == 0
    assert await other.count("running") == 1


async def test_leave_gives_everything_back(claimants: list[Claimant]) -> None:
    one, two, other = claimants
    await other.limit("k", 2)
    await other.put("a", "k", 3)
    await one.claim("a", 2)
    assert await one.connection.fetchval("select * from tidegate.leave($1)", one.id) == 2
    assert await one.connection.fetchval("select * from tidegate.leave($1)", one.id) == 0
    assert [row["attempt"] for row in await two.claim("a", 3)] == [1, 1]
    assert await other.drift() == []


async def test_rescue_needs_long_contact_and_a_server_that_is_not_fresh(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.put("a", "k")
    await one.claim()
    age = "update tidegate.workers set seen_at = seen_at - lease * 2 where id = $1"
    await other.connection.execute(age, one.id)
    rescue = "select * from tidegate.rescue($1)"
    assert await other.connection.fetch(rescue, other.id) == [], "no contact for a whole lease yet"
    long_contact = "update tidegate.workers set contact_since = contact_since - lease * 2 where id = $1"
    await other.connection.execute(long_contact, other.id)
    up = await other.connection.fetchval("select clock_timestamp() - pg_postmaster_start_time() < '30 s'")
    rescued = await other.connection.fetch(rescue, other.id)
    assert len(rescued) == (0 if up else 1), "nobody is rescued within a lease of a server start"
    await other.connection.execute(
        "update tidegate.workers set lease = '100 ms', seen_at = clock_timestamp() + interval '1 h' where id = $1",
        other.id,
    )
    if up:
        assert len(await other.connection.fetch(rescue, other.id)) == 1
    assert await other.connection.fetch(rescue, uuid4()) == []
    assert await other.drift() == []


async def test_a_job_that_lost_five_workers_is_dead(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.put("a", "k", 1)
    await other.connection.execute(
        "update tidegate.workers set lease = '1 ms', contact_since = contact_since - lease,"
        " seen_at = clock_timestamp() + interval '1 h' where id = $1",
        other.id,
    )
    running: list[asyncpg.Record] = []
    for _ in range(5):
        running = await one.claim()
        assert [row["attempt"] for row in running] == [1]
        await other.connection.execute(
            "update tidegate.workers set seen_at = seen_at - lease * 2 where id = $1", one.id
        )
        await other.connection.fetch("select * from tidegate.rescue($1)", other.id)
        await one.renew()
    row = await job(one, running[0]["id"])
    assert (row["state"], row["lost"]) == ("dead", 4)
    assert "vanished" in row["error"]
    assert await other.drift() == []


async def test_recount_repairs_counts_that_were_broken_by_hand(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.limit("k", 3)
    await other.put("a", "k", 6)
    await other.put("a", "k", 1, run_at=await other.now() + timedelta(hours=1))
    await one.claim("a", 2)
    await other.connection.execute("update tidegate.lanes set ready = 99, running = 7, open = false")
    await other.connection.execute("update tidegate.keys set running = 55, waiting = '{a}'")
    await other.connection.execute("update tidegate.queues set scheduled = 44 where name = 'a'")
    broken = {"lane ready", "lane running", "lane shut", "key running", "queue scheduled"}
    assert {row[0] for row in await other.drift()} == broken
    await other.connection.execute("select * from tidegate.recount(true)")
    assert await other.drift() == []
    assert len(await one.claim("a", 8)) == 1
    assert await other.drift() == []
