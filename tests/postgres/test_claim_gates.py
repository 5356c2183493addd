"""Keys with many lanes: what a full key closes, and what its freed capacity opens again."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from tests.postgres.claimants import Claimant, instant_passed


async def vendor(claimant: Claimant, lanes: int, **changes: object) -> None:
    """Put two jobs into each of many lanes of one key."""
    await claimant.limit("vendor", **changes)  # type: ignore[arg-type]
    await claimant.connection.execute(
        "select tidegate.enqueue('a', 'x', '{}', 'vendor', 'tenant-' || g)"
        " from generate_series(1, $1) g, (values (1), (2)) twice",
        lanes,
    )


async def open_lanes(claimant: Claimant) -> int:
    return int(await claimant.connection.fetchval("select count(*) from tidegate.lanes where open and id is not null"))


async def everything(claimant: Claimant, slots: int) -> int:
    """Claim until nothing starts and no hint asks for another claim; return how many started."""
    started = 0
    while True:
        got = await claimant.claim("a", slots)
        started += len(got)
        if not got and claimant.hint is not None and claimant.hint["next_at"] is None:
            return started


@pytest.mark.parametrize("order", ["priority", "fair"])
async def test_a_finish_opens_the_lanes_that_the_key_has_room_for_and_no_more(
    claimants: list[Claimant], order: str
) -> None:
    one, two, other = claimants
    await other.order(order)
    await vendor(other, 60, max_running=4)
    running = await one.claim("a", 8)
    assert len(running) == 4
    while await open_lanes(other):
        assert await one.claim("a", 8) == []
    assert await other.drift() == []
    done = 0
    while running:
        finished, running = running[:1], running[1:]
        running += await two.claim("a", 8) if done % 2 else []
        await one.ack(finished)
        got = await one.claim("a", 8)
        assert len(got) == (1 if done + 4 < 120 else 0)
        assert await open_lanes(other) <= 1
        assert await other.drift() == []
        running += got
        done += 1
    assert done == 120


async def test_a_raised_limit_opens_lanes_until_it_is_full_again(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await vendor(other, 200, max_running=2)
    assert len(await one.claim("a", 8)) == 2
    assert await everything(one, 8) == 0
    await other.limit("vendor", 150)
    assert await everything(one, 16) == 148
    await other.connection.execute("select tidegate.clear_limit('vendor')")
    assert await everything(one, 64) == 250
    assert await other.drift() == []


async def test_a_rate_opens_lanes_at_its_instants(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await vendor(other, 40, max_running=None, max_starts=5, window_ms=150)
    started: list[int] = []
    while len(started) < 15:
        started += sorted(row["id"] for row in await one.claim("a", 8))
        assert one.hint is not None
        await instant_passed(other.connection, one.hint["next_at"])
    assert started == sorted(started), "the lanes of a key take their turn in order"
    assert await other.drift() == []


async def test_a_better_head_in_a_closed_lane_starts_first(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await vendor(other, 30, max_running=1)
    running = await one.claim("a", 4)
    while await open_lanes(other):
        assert await one.claim("a", 4) == []
    await other.put("a", "vendor", group="tenant-17", priority=5)
    assert await one.claim("a", 4) == []
    got = await one.claim("a", 4, done=running)
    assert [(row["group_key"], row["priority"]) for row in got] == [("tenant-17", 5)]
    assert await other.drift() == []


async def test_lanes_of_several_actors_and_keys_all_finish(claimants: list[Claimant]) -> None:
    one, two, other = claimants
    await other.order("fair")
    for key, running in (("v1", 1), ("v2", 3)):
        await other.limit(key, running)
        for tenant in range(12):
            for actor in "xy":
                await other.put("a", key, 2, group=f"t{tenant}", actor=actor)
    held: dict[int, list[object]] = {0: [], 1: []}
    finished: Counter[str] = Counter()
    while sum(finished.values()) < 96:
        for number, (claimant, actors) in enumerate(((one, ("x",)), (two, ("x", "y")))):
            rows = await claimant.claim("a", 5, actors=actors, done=held[number])  # type: ignore[arg-type]
            finished.update(row["limit_key"] for row in held[number])  # type: ignore[index]
            held[number] = list(rows)
            top = await other.connection.fetch(
                "select limit_key, count(*) n from tidegate.jobs where state = 'running' group by 1"
            )
            assert all(row["n"] <= {"v1": 1, "v2": 3}[row["limit_key"]] for row in top)
    assert finished == {"v1": 48, "v2": 48}
    assert await other.drift() == []


async def test_cancelled_jobs_of_a_closed_lane_do_not_strand_the_rest(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await vendor(other, 5, max_running=1)
    running = await one.claim("a", 8)
    while await open_lanes(other):
        assert await one.claim("a", 8) == []
    await other.connection.execute(
        "select tidegate.cancel(id) from tidegate.jobs where state = 'ready' and group_key <> 'tenant-5' order by id"
    )
    for left in (1, 1, 0):
        running = await one.claim("a", 8, done=running)
        assert len(running) == left
    assert await other.drift() == []


async def test_a_new_lane_behind_a_gate_waits_for_no_lane_of_an_actor_that_nobody_serves(
    claimants: list[Claimant],
) -> None:
    one, two, other = claimants
    await other.limit("k", 1)
    for tenant in ("t1", "t2", "t3"):
        await other.put("a", "k", group=tenant, actor="y")
    await one.ack(await one.claim("a", 4, actors=("y",)))
    assert await two.claim("a", 4, actors=("x",)) == []
    await other.put("a", "k", 3, group="t9", actor="x", priority=9)
    assert [row["group_key"] for row in await two.claim("a", 4, actors=("x",))] == ["t9"]
    assert await other.drift() == []


async def closed(claimant: Claimant, queue: str, slots: int, **how: object) -> None:
    """Claim from a full key until its lanes are closed."""
    for _ in range(2):
        assert await claimant.claim(queue, slots, **how) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("order", ["priority", "fair"])
async def test_every_lane_that_the_passed_window_has_room_for_takes_part(claimants: list[Claimant], order: str) -> None:
    one, _, other = claimants
    await other.order(order)
    await other.limit("k", None, max_starts=4, window_ms=300)
    for _ in range(3):
        for tenant in "ABCD":
            await other.put("a", "k", group=tenant)
    for _ in range(3):
        started = await one.claim("a", 4)
        assert sorted(row["group_key"] for row in started) == list("ABCD")
        await one.ack(started)
        await closed(one, "a", 4)
        await instant_passed(other.connection, await other.now() + timedelta(milliseconds=350))
    assert await other.drift() == []


async def test_finishes_that_met_a_busy_key_make_room_for_as_many_lanes(claimants: list[Claimant]) -> None:
    one, two, other = claimants
    await other.order("fair")
    await other.limit("k", 4)
    for _ in range(2):
        for tenant in "ABCD":
            await other.put("a", "k", group=tenant)
    running = await one.claim("a", 4)
    await closed(one, "a", 4)
    held = two.connection.transaction()
    await held.start()
    await two.connection.execute("select from tidegate.keys where key = 'k' for no key update")
    outcome = await one.ack(running, wake=False)
    await held.rollback()
    await one.wake(outcome["wake"])
    assert sorted(row["group_key"] for row in await one.claim("a", 4)) == list("ABCD")


async def test_counts_that_are_not_settled_hide_no_room_from_the_next_job(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.limit("k", None, max_starts=3, window_ms=100)
    await other.put("a", "k", 6)
    await other.put("a", "free", 6)
    assert len(await one.claim("a", 2)) == 2
    await instant_passed(other.connection, await other.now() + timedelta(milliseconds=110))
    assert [row["limit_key"] for row in await one.claim("a", 3)] == ["k", "k", "k"]


async def test_an_open_lane_whose_group_got_busy_gives_way_to_the_closed_one_behind_it(
    claimants: list[Claimant],
) -> None:
    one, two, other = claimants
    await other.order("fair")
    await other.limit("v", 1)
    for tenant in "ABC":
        await other.put("a", "v", group=tenant)
    await one.ack(await one.claim("a", 3))
    # opens the lane of B
    await other.connection.execute("call tidegate.maintain($1)", other.id)
    await other.put("a", "w", 2, group="B", actor="y")
    assert len(await two.claim("a", 2, actors=("y",))) == 2
    assert [row["group_key"] for row in await one.claim("a")] == ["C"]
    assert await other.drift() == []


async def test_a_closed_lane_whose_group_got_idle_goes_first(claimants: list[Claimant]) -> None:
    one, two, other = claimants
    await other.order("fair")
    await other.limit("v", 1)
    await other.put("a", "w", 1, group="B", actor="y")
    busy = await two.claim("a", 1, actors=("y",))
    for tenant in "ABC":
        await other.put("a", "v", group=tenant)
    await other.put("a", "v", group="C")
    first = await one.claim("a", 3)
    assert [row["group_key"] for row in first] == ["A"]
    await closed(one, "a", 3)
    await one.ack(first)
    await other.connection.execute("call tidegate.maintain($1)", other.id)
    await two.ack(busy)
    assert [row["group_key"] for row in await one.claim("a")] == ["B"]
    assert await other.drift() == []


async def test_a_weight_moves_closed_lanes(claimants: list[Claimant]) -> None:
    one, two, other = claimants
    await other.order("fair")
    await other.limit("v", 1)
    for tenant, running in (("A", 1), ("B", 3), ("C", 2)):
        await other.put("a", "w", running, group=tenant, actor="y")
    await two.claim("a", 6, actors=("y",))
    for tenant in "ABC":
        await other.put("a", "v", 2, group=tenant)
    first = await one.claim("a", 3)
    assert [row["group_key"] for row in first] == ["A"]
    await closed(one, "a", 3)
    await one.ack(first)
    await other.connection.execute("call tidegate.maintain($1)", other.id)
    await other.limit("B", None, weight=10)
    assert [row["group_key"] for row in await one.claim("a")] == ["B"]
    assert await other.drift() == []


async def test_a_queue_claimed_in_both_orders_opens_the_first_lane_of_each(claimants: list[Claimant]) -> None:
    one, two, other = claimants
    await other.limit("v", 1)
    for tenant in ("z", "A", "B"):
        await other.put("a", "v", group=tenant)
    await other.put("a", "w", 2, group="A", actor="y")
    running = await one.claim("a", 1, fair=True)
    assert len(await two.claim("a", 2, actors=("y",), fair=False)) == 2
    await closed(one, "a", 3, fair=False)
    # by age it is A's turn, by fairness B's
    got = await one.claim("a", 1, fair=False, done=running)
    assert [row["group_key"] for row in got] == ["A"]
    await closed(one, "a", 3, fair=True)
    assert [row["group_key"] for row in await one.claim("a", 1, fair=True, done=got)] == ["B"]
    assert await other.drift() == []


async def test_a_lane_whose_head_is_locked_lets_the_next_lanes_of_its_key_start(claimants: list[Claimant]) -> None:
    one, holder, other = claimants
    await other.limit("k", 2)
    for tenant in "ABCDE":
        await other.put("a", "k", group=tenant)
    running = await one.claim("a", 4)
    await closed(one, "a", 4)
    head = await other.connection.fetchval("select min(id) from tidegate.jobs where state = 'ready'")
    held = holder.connection.transaction()
    await held.start()
    await holder.connection.fetchval("select tidegate.cancel($1)", head)
    await one.ack(running)
    started = await one.claim("a", 4)
    assert [row["group_key"] for row in started] == ["D", "E"]
    await held.rollback()
    await one.ack(started)
    assert one.hint is not None
    await instant_passed(other.connection, one.hint["next_at"])
    assert [row["group_key"] for row in await one.claim("a", 4)] == ["C"]
    assert await other.drift() == []
