"""Which jobs a claim starts: the two orders, weights, room, bytes, instants, and rows that are not what they seemed."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import timedelta
from functools import partial
from operator import itemgetter
from typing import Any

import asyncpg
import pytest

from tests.postgres.claimants import Claimant, at_once, instant_passed


def counts(rows: list[asyncpg.Record], column: str = "limit_key") -> dict[str, int]:
    return dict(Counter(row[column] for row in rows))


async def test_priority_order_is_priority_then_run_at_then_id(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    now = await other.now()
    chance = random.Random(7)  # noqa: S311 - the same jobs in every run
    for _ in range(40):
        run_at = now - timedelta(seconds=chance.randrange(5))
        await other.put("a", chance.choice(["", "k", "l"]), priority=chance.randrange(-2, 3), run_at=run_at)
    every = await other.connection.fetch("select id from tidegate.jobs order by priority desc, run_at, id")
    expected = [row["id"] for row in every]
    for slots in (1, 2, 3, 5, 8, 13, 8):
        batch, expected = expected[:slots], expected[slots:]
        assert sorted(row["id"] for row in await one.claim("a", slots)) == sorted(batch)
    assert await other.drift() == []


async def test_a_saturated_key_is_stepped_over_in_the_same_claim(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.limit("full", 1)
    await other.put("a", "full", 30, priority=9)
    await other.put("a", "free", 8)
    got = await one.claim("a", 8)
    assert counts(got) == {"full": 1, "free": 7}
    assert await other.drift() == []


async def test_lanes_of_one_full_key_never_hide_the_lanes_behind_them(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.limit("vendor", 2)
    for tenant in range(20):
        await other.put("a", "vendor", 2, group=f"tenant-{tenant}", priority=5)
    await other.put("a", "free", 8)
    assert counts(await one.claim("a", 8)) == {"vendor": 2, "free": 6}
    assert await other.drift() == []


async def test_fair_order_gives_each_slot_to_the_group_with_the_fewest_running(claimants: list[Claimant]) -> None:
    one, two, other = claimants
    await other.order("fair")
    await other.put("a", "big", 50)
    await other.put("a", "small", 5)
    got = await one.claim("a", 6)
    assert counts(got) == {"big": 3, "small": 3}
    finished = [row for row in got if row["limit_key"] == "small"][:1]
    assert counts(await one.claim("a", done=finished)) == {"small": 1}, "one slot at a time"
    assert counts(await two.claim("a")) == {"big": 1}, "the count is over all workers; ties go to the oldest job"
    assert await other.drift() == []


@pytest.mark.parametrize("seed", range(6))
async def test_places_of_one_claim_are_the_order_in_which_claims_of_one_would_start_them(
    claimants: list[Claimant], seed: int
) -> None:
    one, _, other = claimants
    chance = random.Random(seed)  # noqa: S311 - the same jobs in every run
    await other.order(chance.choice(["fair", "priority"]))
    for key, cap in (("k", 3), ("l", 5), ("wide", 1000)):
        await other.limit(key, cap)
    for _ in range(30):
        await other.put(
            "a",
            chance.choice(["", "k", "l", "wide"]),
            chance.randrange(1, 4),
            actor=chance.choice(["x", "y"]),
            group=chance.choice([None, "t1", "t2", "t3"]),
            priority=chance.choice([0, 0, 0, 5]),
        )
    slots = chance.choice([4, 16, 40])
    transaction = one.connection.transaction()
    await transaction.start()
    together = await one.claim("a", slots, actors=("x", "y"))
    await transaction.rollback()
    assert sorted(row["place"] for row in together) == list(range(1, len(together) + 1))
    one_by_one = [row["id"] for _ in together for row in await one.claim("a", actors=("x", "y"))]
    assert [row["id"] for row in sorted(together, key=itemgetter("place"))] == one_by_one


async def test_a_group_over_two_limits_is_one_group(claimants: list[Claimant]) -> None:
    one, two, other = claimants
    await other.order("fair")
    await other.put("a", "v1", 4, group="t1")
    await other.put("a", "v2", 4, group="t1")
    await other.put("a", "v1", 4, group="t2")
    got = await one.claim("a", 4)
    assert counts(got, "group_key") == {"t1": 2, "t2": 2}
    more = await two.claim("a", 2)
    assert counts(got + more, "group_key") == {"t1": 3, "t2": 3}
    await one.ack(got)
    await two.ack(more)
    assert len(await one.claim("a", 12)) == 6
    assert await other.drift() == []


async def test_weights_share_slots_and_a_new_weight_is_taken(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.order("fair")
    await other.limit("heavy", None, weight=3)
    await other.put("a", "light", 40)
    await other.put("a", "heavy", 40)
    got = await one.claim("a", 8)
    assert counts(got) == {"light": 2, "heavy": 6}
    await one.ack(got)
    await other.limit("heavy", None, weight=1)
    assert counts(await one.claim("a", 8)) == {"light": 4, "heavy": 4}
    assert await other.drift() == []


@pytest.mark.parametrize(("weight", "running"), [(3, 2), (6, 1)])
async def test_equal_shares_of_any_weight_are_a_tie_that_the_oldest_job_wins(
    claimants: list[Claimant], weight: int, running: int
) -> None:
    one, two, other = claimants
    await other.order("fair")
    await other.limit("heavy", None, weight=weight)
    await other.put("a", "light", running)
    await other.put("a", "heavy", 1)
    await one.claim("a", running + 1)
    await other.put("a", "light", 1)
    await other.put("a", "heavy", running * weight)
    assert counts(await two.claim("a", running * weight)) == {"heavy": running * weight - 1, "light": 1}
    assert await other.drift() == []


async def test_jobs_without_a_key_are_one_group_without_limit(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.order("fair")
    await other.put("a", "", 20)
    await other.put("a", "k", 20)
    assert counts(await one.claim("a", 10)) == {"": 5, "k": 5}
    assert await other.drift() == []


async def test_workers_of_both_orders_serve_one_queue(claimants: list[Claimant]) -> None:
    one, two, other = claimants
    await other.put("a", "big", 20)
    await other.put("a", "small", 5)
    assert counts(await one.claim("a", 4, fair=False)) == {"big": 4}
    assert counts(await two.claim("a", 4, fair=True)) == {"small": 4}
    assert counts(await one.claim("a", 4, fair=False)) == {"big": 4}
    assert counts(await two.claim("a", 1, fair=True)) == {"small": 1}
    assert await other.drift() == []


async def test_the_queue_row_decides_the_order_of_workers_that_do_not(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.put("a", "big", 20)
    await other.put("a", "small", 5)
    assert counts(await one.claim("a", 2)) == {"big": 2}
    await other.order("fair", "a")
    assert counts(await one.claim("a", 2)) == {"small": 2}
    assert await other.drift() == []


async def test_a_queue_that_was_declared_fair_keeps_one_order(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.order("fair", "a")
    await other.put("a", "k", 3)
    await other.connection.execute("select tidegate.fold('a')")
    await one.claim("a")
    kept = "select kept_order from tidegate.queues where name = 'a'"
    assert await other.connection.fetchval(kept) == "fair"
    await one.claim("a", fair=False)
    assert await other.connection.fetchval(kept) == "both"
    assert await other.drift() == []


async def test_the_cut_is_at_the_first_job_that_does_not_fit(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.put("a", "k", 3, size=100)
    await other.put("a", "k", 1, size=5000)
    await other.put("a", "k", 2, size=100)
    assert len(await one.claim("a", 5, size=1000)) == 3
    assert one.hint is not None
    assert one.hint["cut"] > 5000
    assert len(await one.claim("a", 5, size=1000)) == 1, "one oversized job goes alone"
    assert one.hint["cut"] is None
    assert len(await one.claim("a", 5, size=1000)) == 2
    assert one.hint["cut"] is None


async def test_a_job_above_the_budget_waits_for_room_and_is_not_passed(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.put("a", "", 1, size=400)
    await other.put("a", "", 3, size=10)
    assert await one.claim("a", 5, size=300, largest=300) == []
    assert one.hint is not None
    assert 400 < one.hint["cut"] < 450
    [large] = await one.claim("a", 5, size=300, largest=500)
    assert json.loads(large["payload"]) == {"filler": "x" * 400}
    assert len(await one.claim("a", 5, size=300, largest=300)) == 3


async def test_a_job_that_is_refused_for_its_size_comes_alone_and_without_its_payload(
    claimants: list[Claimant],
) -> None:
    one, _, other = claimants
    await other.put("a", "", 1, size=10)
    await other.put("a", "", 1, size=400)
    await other.put("a", "", 1, size=10)
    claim = partial(one.claim, "a", 5, size=300, largest=300, refused_above=350)
    [small] = await claim()
    assert small["inline"]
    [large] = await claim()
    assert large["bytes"] > 350
    assert (large["payload"], large["inline"]) == (None, False)
    [small] = await claim()
    assert small["inline"]
    await other.put("a", "", 1, size=320)
    assert await claim() == [], "not refused for its size, so it waits for room"
    assert await other.drift() == []


async def test_an_expired_job_neither_ends_a_claim_by_its_size_nor_disturbs_the_places(
    claimants: list[Claimant],
) -> None:
    one, _, other = claimants
    for size, priority in ((300, 9), (1, 8), (300, 7), (1, 6)):
        soon = await other.now() + timedelta(milliseconds=50) if size == 300 else None
        await other.put("a", "k", priority=priority, size=size, expires_at=soon)
    await other.put("a", "l", priority=1)
    await instant_passed(other.connection, await other.now() + timedelta(milliseconds=50))
    got = await one.claim("a", 3, size=100, largest=0)
    assert [row["priority"] for row in sorted(got, key=itemgetter("place"))] == [8, 6, 1]
    assert len({row["place"] for row in got}) == 3
    assert one.hint is None or one.hint["cut"] is None
    assert await other.drift() == []


async def test_an_expired_job_takes_no_share_of_its_group(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.order("fair")
    await other.put("a", "k", expires_at=await other.now() + timedelta(milliseconds=50))
    await other.put("a", "k", size=60)
    await other.put("a", "l", size=60)
    await instant_passed(other.connection, await other.now() + timedelta(milliseconds=50))
    assert counts(await one.claim("a", 3, size=100)) == {"k": 1}
    assert await other.drift() == []


async def test_only_actors_that_the_worker_knows_and_has_room_for(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.put("a", "k", 2, actor="stranger", priority=9)
    await other.put("a", "k", 4, actor="x")
    await other.put("a", "k", 4, actor="y")
    got = await one.claim("a", 6, actors=("x", "y"), rooms=(1, 6))
    assert counts(got, "actor") == {"x": 1, "y": 4}
    assert await other.count("ready") == 5
    assert counts(await one.claim("a", 9, actors=("stranger",)), "actor") == {"stranger": 2}
    assert await other.drift() == []


async def test_scheduled_jobs_start_at_their_instant_and_the_hint_names_it(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    now = await other.now()
    later, sooner = now + timedelta(milliseconds=600), now + timedelta(milliseconds=300)
    await other.put("a", "k", 2, run_at=later)
    assert await one.claim("a", 2) == []
    assert one.hint is not None
    assert one.hint["next_at"] == later
    await other.put("a", "k", 1, run_at=sooner)
    assert await one.claim("a", 2) == []
    assert one.hint["next_at"] == sooner
    await instant_passed(other.connection, sooner)
    assert len(await one.claim("a", 2)) == 1
    await instant_passed(other.connection, later)
    assert len(await one.claim("a", 3)) == 2
    early = "select count(*) from tidegate.jobs where started_at < run_at"
    assert await other.connection.fetchval(early) == 0
    assert await other.drift() == []


async def test_a_mass_that_is_due_is_promoted_by_few_claims_while_others_fill_the_slots(
    claimants: list[Claimant],
) -> None:
    """One claim of two in 50 ms, by the database's clock; whoever finds nothing else takes what is due at once."""
    one, _, other = claimants
    await other.put("a", "due", 70, run_at=await other.now() + timedelta(milliseconds=50), priority=9)
    await other.put("a", "ready", 8)
    await instant_passed(other.connection, await other.now() + timedelta(milliseconds=50))
    look = "select due_at from tidegate.queues where name = 'a'"
    began = await other.now()
    assert counts(await one.claim("a", 2)) == {"due": 2}
    rest = await other.connection.fetchval(look)
    assert rest >= began + timedelta(milliseconds=50)
    assert await other.count("scheduled") == 68
    await other.connection.execute("update tidegate.queues set due_at = due_at + interval '1 hour'")
    assert counts(await one.claim("a", 6)) == {"ready": 6}
    assert await one.claim("a", 4, actors=("y",)) == []
    assert one.hint is not None
    assert one.hint["next_at"] == rest + timedelta(hours=1)
    await other.connection.execute(
        "insert into tidegate.jobs(queue, actor, limit_key, state, run_at) values ('a', 'x', 'older', 'scheduled', $1)",
        began - timedelta(hours=1),
    )
    assert counts(await one.claim("a", 3)) == {"due": 2, "older": 1}
    assert counts(await one.claim("a", 4)) == {"due": 4}
    assert counts(await one.claim("a", 70)) == {"due": 62, "ready": 2}
    assert await other.drift() == []


@pytest.mark.parametrize("rooms", [(1, 0), None])
async def test_a_mass_that_is_due_is_not_left_alone_for_jobs_that_the_worker_cannot_start(
    claimants: list[Claimant], rooms: tuple[int, ...] | None
) -> None:
    one, _, other = claimants
    actors = ("y", "x") if rooms else ("y",)
    await other.put("a", "due", 200, actor="y", run_at=await other.now() + timedelta(milliseconds=50))
    await other.put("a", "ready", 8, actor="x")
    await instant_passed(other.connection, await other.now() + timedelta(milliseconds=50))
    for _ in range(3):
        assert counts(await one.claim("a", 1, actors=actors, rooms=rooms)) == {"due": 1}
    assert await other.drift() == []


async def test_a_job_locked_by_somebody_is_stepped_over_and_found_later(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.put("a", "k", 3)
    transaction = other.connection.transaction()
    await transaction.start()
    first = await other.connection.fetchval("select min(id) from tidegate.jobs")
    await other.connection.execute("select from tidegate.jobs where id = $1 for update", first)
    await at_once(one.claim("a", 3))
    await transaction.rollback()
    while await other.count("ready"):
        assert await one.claim("a", 3) or one.hint is not None
    assert await other.count("running") == 3
    assert await other.drift() == []


async def test_an_expired_job_never_starts_and_is_remembered(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.put("a", "k", 2, expires_at=await other.now())
    await other.put("a", "k", 1)
    assert len(await one.claim("a", 3)) == 1
    assert await other.count("expired") == 2
    assert await other.drift() == []


async def test_maintenance_expires_promotes_and_folds_a_queue_that_nobody_serves(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    now = await other.now()
    await other.limit("never", 0)
    await other.put("a", "never", 2, expires_at=now)
    await other.put("a", "k", 2, run_at=now + timedelta(milliseconds=20))
    await instant_passed(other.connection, now + timedelta(milliseconds=20))
    await other.connection.execute("call tidegate.maintain($1)", other.id)
    assert await other.count("expired") == 2
    assert await other.count("scheduled") == 0
    assert await other.connection.fetchval("select count(*) from tidegate.lane_mail") == 0
    assert len(await one.claim("a", 5)) == 2
    assert await other.drift() == []


@pytest.mark.parametrize("state", ["ready", "running", "scheduled"])
async def test_rows_deleted_by_hand_give_back_what_they_held(claimants: list[Claimant], state: str) -> None:
    one, _, other = claimants
    await other.limit("k", 1)
    await other.put("a", "k", 2)
    await other.put("a", "k", 2, run_at=await other.now() + timedelta(hours=1))
    assert len(await one.claim("a", 2)) == 1
    await other.connection.execute("delete from tidegate.jobs where state = $1", state)
    assert await other.drift() == []
    await other.put("a", "k", 1)
    assert len(await one.claim("a", 2)) == (1 if state == "running" else 0)


async def test_truncate_is_refused(connection: Any) -> None:
    with pytest.raises(asyncpg.RaiseError, match="truncate of jobs is refused"):
        await connection.execute("truncate tidegate.jobs")


async def test_a_cap_of_zero_holds_everything(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.limit("k", 0)
    await other.limit("r", None, max_starts=0, window_ms=1000)
    await other.put("a", "k", 2)
    await other.put("a", "r", 2)
    assert await one.claim("a", 8) == []
    await other.limit("k", 1)
    await other.limit("r", None, max_starts=1)
    assert counts(await one.claim("a", 8)) == {"k": 1, "r": 1}
    assert await other.drift() == []


async def test_clear_limit_drops_the_marks_and_a_later_limit_counts_from_zero(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.limit("k", None, max_starts=1, window_ms=3_600_000)
    await other.put("a", "k", 4)
    assert len(await one.claim("a", 4)) == 1
    assert await other.connection.fetchval("select tidegate.clear_limit('k')")
    await other.limit("k", None, max_starts=1, window_ms=3_600_000)
    assert len(await one.claim("a", 4)) == 1
    assert await other.drift() == []


@pytest.mark.parametrize("order", ["priority", "fair"])
async def test_one_claim_fills_its_slots_from_a_group_of_several_lanes(claimants: list[Claimant], order: str) -> None:
    one, _, other = claimants
    actors = ("x", "y", "z")
    await other.order(order)
    for actor in actors:
        await other.put("a", n=20, actor=actor)
    assert len(await one.claim("a", 32, actors=actors)) == 32
    assert await other.drift() == []
