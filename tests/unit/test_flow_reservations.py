"""Reservations of several pools: every rule held against every step of random histories, and its cost counted."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from types import FrameType
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.flow.pools import Pool
from tidegate.flow.reservations import BYPASS, Reservation, Reservations, State, Way
from tidegate.flow.waiting import WaitingLine

SIZES = st.sampled_from([0, 1, 2, 3, 5, 6, 9, 10, 11, 19, 20, 21, 25])


class Setup(NamedTuple):
    pools: Sequence[tuple[int | None, int | None]]
    ways: Sequence[Sequence[int]]
    bypass: int


@st.composite
def setups(draw: st.DrawFn, most_pools: int = 4) -> Setup:
    messages = st.sampled_from([None, 1, 2, 3, 5])
    pools = draw(st.lists(st.tuples(messages, st.sampled_from([None, 5, 10, 20])), min_size=1, max_size=most_pools))
    way = st.lists(st.integers(0, len(pools) - 1), unique=True, max_size=3)
    return Setup(pools, draw(st.lists(way, min_size=1, max_size=5)), draw(st.sampled_from([0, 1, 2, 5, BYPASS])))


class World:
    """Reservations with a ledger of its own beside them, compared after every step."""

    def __init__(self, setup: Setup) -> None:
        self.pools = [Pool(f"pool {number}", *bounds) for number, bounds in enumerate(setup.pools)]
        self.ways = [Way([self.pools[number] for number in way]) for way in setup.ways]
        self.bypass = setup.bypass
        self.reservations = Reservations(setup.bypass)
        self.live: list[Reservation] = []
        self.told: Counter[int] = Counter()
        self.overtaken: Counter[int] = Counter()

    @property
    def waiting(self) -> list[Reservation]:
        return [each for each in self.live if each.is_waiting]

    @property
    def granted(self) -> list[Reservation]:
        return [each for each in self.live if each.state is State.GRANTED]

    def enter(self, way: Way, size: int) -> Reservation:
        before = self.waiting
        box: list[Reservation] = []
        reservation = self.reservations.enter(way, size, lambda: self.told.update([box[0].arrival]))
        box.append(reservation)
        self.live.append(reservation)
        self._count(before, [reservation] if reservation.state is State.GRANTED else [])
        self.check()
        return reservation

    def leave(self, reservation: Reservation) -> None:
        self.live.remove(reservation)
        before = self.waiting
        self.reservations.leave(reservation)
        self.reservations.leave(reservation)
        self._count(before, [each for each in before if each.state is State.GRANTED])
        for each in before:
            assert self.told[each.arrival] == (each.state is State.GRANTED)
        self.check()

    def _count(self, before: list[Reservation], granted: list[Reservation]) -> None:
        for waits in before:
            for other in granted:
                if waits.is_waiting and other.arrival > waits.arrival and set(waits.way.pools) & set(other.way.pools):
                    self.overtaken[waits.arrival] += 1

    def check(self) -> None:
        for pool in self.pools:
            inside = [each for each in self.granted if pool in each.way.pools]
            assert (pool.messages, pool.bytes) == (len(inside), sum(each.size for each in inside))
            assert pool.max_messages is None or pool.messages <= pool.max_messages
            assert pool.max_bytes is None or pool.bytes <= pool.max_bytes or pool.messages == 1
            closer = next((each for each in self.waiting if each.arrival == pool.closed_from), None)
            if pool.is_closed:
                assert closer is not None
                assert pool.is_oversized(closer.size) or closer.is_overdue(self.bypass)
        for waits in self.waiting:
            # Work-conserving: whoever waits does not fit, or somebody who came before keeps the room.
            assert any(not pool.fits(waits.size) or pool.closed_from < waits.arrival for pool in waits.way.pools)


Steps = st.lists(st.tuples(st.integers(0, 4), SIZES, st.integers(0, 1000)), max_size=60)


def play(world: World, steps: list[tuple[int, int, int]]) -> None:
    for way, size, pick in steps:
        if pick % 2 and world.live:
            world.leave(world.live[pick % len(world.live)])
        else:
            world.enter(world.ways[way % len(world.ways)], size)


@given(setups(), Steps, st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_no_budget_is_exceeded_nobody_waits_for_nothing_and_everybody_gets_in(
    setup: Setup, steps: list[tuple[int, int, int]], random: Random
) -> None:
    world = World(setup)
    play(world, steps)
    while world.live:
        assert world.granted, "everybody waits for everybody else"
        world.leave(random.choice(world.granted))
    assert all(pool.messages == pool.bytes == 0 and not pool.is_closed for pool in world.pools)
    assert all(not pool.parked and not pool.sized_ways for pool in world.pools)


@given(setups(most_pools=1), Steps)
@settings(max_examples=200)
def test_nobody_is_overtaken_more_often_than_allowed(setup: Setup, steps: list[tuple[int, int, int]]) -> None:
    world = World(setup._replace(ways=[[0]]))
    play(world, steps)
    for reservation in world.live:
        oversized = world.pools[0].is_oversized(reservation.size)
        assert world.overtaken[reservation.arrival] <= (0 if oversized else setup.bypass)


@given(st.lists(SIZES, min_size=1, max_size=30), st.integers(1, 3))
def test_equal_needs_are_served_in_the_order_of_arrival(sizes: list[int], slots: int) -> None:
    world = World(Setup([(slots, None)], [[0]], BYPASS))
    entered = [world.enter(world.ways[0], size) for size in sizes]
    for index, reservation in enumerate(entered):
        assert reservation.state is State.GRANTED
        world.leave(reservation)
        assert sum(each.state is State.GRANTED for each in entered[index + 1 :]) == min(slots, len(sizes) - index - 1)


def test_a_full_pool_keeps_no_slot_of_a_shared_one() -> None:
    router, actor = Pool("router", 20, None), Pool("actor", 4, None)
    narrow, wide = Way([actor, router]), Way([router])
    reservations = Reservations()
    for _ in range(1000):
        reservations.enter(narrow, 1, lambda: None)
    assert (actor.messages, router.messages) == (4, 4)
    others = [reservations.enter(wide, 1, lambda: None) for _ in range(16)]
    assert all(other.state is State.GRANTED for other in others)


def test_small_ones_use_what_a_large_one_cannot_and_do_not_starve_it() -> None:
    world = World(Setup([(None, 10)], [[0]], 3))
    (way,) = world.ways
    first = world.enter(way, 6)
    large = world.enter(way, 9)
    small = [world.enter(way, 1) for _ in range(6)]
    assert [each.state is State.GRANTED for each in small] == [True, True, True, False, False, False]
    world.leave(first)
    assert large.is_waiting
    for each in small[:2]:
        world.leave(each)
    assert large.state is State.GRANTED
    # 1 byte is left beside the 9, and the small one that still runs has it
    assert [each.state is State.GRANTED for each in small[3:]] == [False, False, False]
    world.leave(large)
    assert all(each.state is State.GRANTED for each in small[3:])


def test_a_payload_of_exactly_the_budget_is_not_oversized() -> None:
    world = World(Setup([(None, 10)], [[0]], BYPASS))
    (way,) = world.ways
    small = world.enter(way, 1)
    exact = world.enter(way, 10)
    beside = world.enter(way, 1)
    assert (exact.is_waiting, beside.state) == (True, State.GRANTED)
    oversized = world.enter(way, 11)
    after = world.enter(way, 1)
    assert after.is_waiting
    for each in (small, beside):
        world.leave(each)
    assert (exact.state, oversized.is_waiting) == (State.GRANTED, True)
    world.leave(exact)
    assert (oversized.state, after.is_waiting) == (State.GRANTED, True)
    world.leave(oversized)
    assert after.state is State.GRANTED


def test_streams_of_oversized_and_of_small_ones_take_turns() -> None:
    world = World(Setup([(3, 10)], [[0]], BYPASS))
    (way,) = world.ways
    ran: Counter[bool] = Counter()
    for number in range(400):
        world.enter(way, 15 if number % 2 else 2)
        if number >= 20:
            done = world.granted[0]
            ran[done.size > 10] += 1
            world.leave(done)
    assert min(ran.values()) > 100
    assert max(waits.arrival for waits in world.granted) - min(waits.arrival for waits in world.waiting) <= 3


@pytest.mark.parametrize("bypass", [BYPASS, 10**9])
def test_who_needs_two_pools_gets_in_although_each_is_always_taken_by_others(bypass: int) -> None:
    world = World(Setup([(1, None), (1, None)], [[0, 1], [0], [1]], bypass))
    both, left, right = world.ways
    for way in (left, right):
        world.enter(way, 1)
    needs_both = world.enter(both, 1)
    rounds = 0
    while needs_both.is_waiting and rounds < 4 * BYPASS:
        rounds += 1
        for way in (left, right):
            world.enter(way, 1)
            world.leave(next(each for each in world.granted if each.way is way))
    # without the bound it would wait for ever: the slots never come free at the same time
    assert needs_both.is_waiting == (bypass > BYPASS)
    assert rounds <= 2 * BYPASS or bypass > BYPASS


def test_what_an_overdue_one_kept_closed_is_open_when_it_is_in() -> None:
    world = World(Setup([(1, None), (2, None)], [[1, 0], [0], [1]], 0))
    both, left, right = world.ways
    keeps_left, keeps_right, also_right = world.enter(left, 1), world.enter(right, 1), world.enter(right, 1)
    overdue = world.enter(both, 1)
    world.leave(keeps_right)
    world.leave(also_right)
    later = world.enter(right, 1)
    assert (overdue.is_waiting, later.is_waiting) == (True, True)
    world.leave(keeps_left)
    assert (overdue.state, later.state) == (State.GRANTED, State.GRANTED)


@given(setups(), st.randoms(use_true_random=False), st.integers(0, 5))
@settings(max_examples=40)
def test_nobody_starves_in_endless_streams_over_all_ways(setup: Setup, random: Random, bypass: int) -> None:
    world = World(setup._replace(bypass=bypass))
    ways = [way for way in world.ways if any(pool.max_messages or pool.max_bytes for pool in way.pools)]
    since: dict[int, int] = {}
    for step in range(400 if ways else 0):
        while len(world.waiting) < 8 and len(world.live) < 30:
            since[world.enter(random.choice(ways), random.choice([1, 2, 5, 9, 10, 11, 25])).arrival] = step
        world.leave(random.choice(world.granted))
        for waits in world.waiting:
            assert step - since[waits.arrival] < 200


def test_an_overdue_one_lets_go_when_it_is_given_up() -> None:
    world = World(Setup([(None, 10)], [[0]], 0))
    (way,) = world.ways
    world.enter(way, 5)
    overdue = world.enter(way, 9)
    small = world.enter(way, 1)
    assert small.is_waiting
    world.leave(overdue)
    assert small.state is State.GRANTED


@given(st.lists(st.tuples(SIZES, st.integers(0, 100), st.integers(0, 25)), max_size=120), st.booleans())
def test_a_line_finds_the_first_and_the_first_that_is_small_enough(
    steps: list[tuple[int, int, int]], sized: bool
) -> None:
    line, way = WaitingLine(sized=sized), Way([])
    model: list[Reservation] = []
    for arrival, (size, pick, room) in enumerate(steps):
        if pick % 3 == 0 and model:
            line.remove(model.pop(pick % len(model)))
        else:
            reservation = Reservation(way, size, arrival, lambda: None)
            line.append(reservation)
            model.append(reservation)
        assert len(line) == len(model)
        if model:
            assert line.head is model[0]
        if sized:
            assert line.first_within(room) is next((each for each in model if each.size <= room), None)


def steps_of(call: Callable[[], object]) -> int:
    """Count the lines of the flow that a call runs: the same on every machine, however busy."""
    lines = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if "/tidegate/flow/" not in frame.f_code.co_filename:
            return None
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return lines


def cost_of_release(waiters: int, setup: Setup, sizes: list[int]) -> float:
    """Mean lines of a release while so many wait, on ways and of sizes drawn evenly."""
    random = Random(1)  # noqa: S311 - a scenario that repeats
    world = World(setup)
    held: list[Reservation] = []

    def fill() -> None:
        while sum(len(way.line) for way in world.ways) < waiters:
            way, size = random.choice(world.ways), random.choice(sizes)
            entered = world.reservations.enter(way, size, lambda: None)
            held.append(entered)

    total = 0
    for _ in range(150):
        fill()
        done = random.choice([each for each in held if each.state is State.GRANTED])
        held.remove(done)
        total += steps_of(partial(world.reservations.leave, done))
    return total / 150


NESTED = [[number, 8] for number in range(8)]


@pytest.mark.parametrize(
    ("setup", "sizes"),
    [
        pytest.param(Setup([(4, None)], [[0]], BYPASS), [1], id="slots"),
        pytest.param(Setup([(4, None)] * 8 + [(20, None)], NESTED, BYPASS), [1], id="slots-of-actors-and-router"),
        pytest.param(Setup([(None, 100)], [[0]], BYPASS), [25], id="bytes"),
        pytest.param(Setup([(None, 1000)], [[0]], BYPASS), list(range(1, 1000, 7)), id="bytes-of-all-sizes"),
        pytest.param(Setup([(None, 1000)], [[0]], BYPASS), [10, 50, 100, 500, 2000], id="oversized-among-them"),
        pytest.param(Setup([(3, None)] * 4 + [(6, None)], [[n, 4] for n in range(4)], 0), [1], id="always-overdue"),
    ],
)
def test_a_release_costs_the_same_with_a_thousand_waiters_as_with_ten(setup: Setup, sizes: list[int]) -> None:
    few, many = cost_of_release(10, setup, sizes), cost_of_release(1000, setup, sizes)
    assert many <= 2 * few


def test_a_release_costs_the_same_with_a_thousand_waiters_where_every_actor_has_a_byte_budget() -> None:
    setup = Setup([(10, 1000)] * 8 + [(50, 4000)], NESTED, BYPASS)
    sizes = list(range(1, 1500, 7))
    assert cost_of_release(1000, setup, sizes) <= 2 * cost_of_release(100, setup, sizes)
