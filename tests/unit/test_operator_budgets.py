"""Who may write when: transitions before numbers, two buckets, five seconds an object. The clock is the test's."""

from __future__ import annotations

import pytest

from tidegate_operator.reconcile.budgets import NUMBERS_EVERY, TokenBucket, WriteQueue
from tidegate_operator.reconcile.ticks import Ticks


def drained(queue: WriteQueue[str], start: float, seconds: float) -> list[tuple[float, str]]:
    """Take whenever the queue says so, for a time; the instants and what came."""
    now, taken = start, []
    while now < start + seconds:
        item = queue.take(now)
        if item is not None:
            taken.append((now - start, item))
            continue
        wait = queue.wait(now)
        if wait is None:
            break
        now += max(wait, 1e-6)
    return taken


def test_transitions_go_first_and_a_hundred_a_second() -> None:
    queue: WriteQueue[str] = WriteQueue()
    for number in range(300):
        queue.offer(f"n{number}", "number", urgent=False)
        queue.offer(f"t{number}", "transition", urgent=True)
    taken = drained(queue, 1_000.0, 60.0)
    assert [item for _, item in taken[:300]] == ["transition"] * 300
    last_transition = taken[299][0]
    assert 1.9 <= last_transition <= 3.1
    assert len(taken) == 600


def test_numbers_go_at_twenty_a_second() -> None:
    queue: WriteQueue[str] = WriteQueue()
    for number in range(400):
        queue.offer(number, "number", urgent=False)
    taken = drained(queue, 1_000.0, 10.0)
    assert 200 <= len(taken) <= 221


def test_an_objects_numbers_wait_five_seconds_after_its_last_write() -> None:
    queue: WriteQueue[str] = WriteQueue()
    queue.offer("a", "first", urgent=True)
    assert queue.take(1_000.0) == "first"
    queue.offer("a", "second", urgent=False)
    assert queue.take(1_001.0) is None
    assert queue.wait(1_001.0) == pytest.approx(NUMBERS_EVERY - 1)
    assert queue.take(1_000.0 + NUMBERS_EVERY) == "second"


def test_one_that_waits_does_not_hold_up_another() -> None:
    queue: WriteQueue[str] = WriteQueue()
    queue.offer("a", "a1", urgent=True)
    assert queue.take(1_000.0) == "a1"
    queue.offer("a", "a2", urgent=False)
    queue.offer("b", "b1", urgent=False)
    assert queue.take(1_000.5) == "b1"


def test_the_newest_is_written_and_stays_urgent() -> None:
    queue: WriteQueue[str] = WriteQueue()
    queue.offer("a", "old", urgent=True)
    queue.offer("a", "new", urgent=False)
    assert len(queue) == 1
    assert queue.take(1_000.0) == "new"
    assert queue.wait(1_000.0) is None


def test_what_is_withdrawn_is_not_written() -> None:
    queue: WriteQueue[str] = WriteQueue()
    queue.offer("a", "x", urgent=True)
    queue.offer("b", "x", urgent=False)
    queue.withdraw("a")
    queue.forget("b")
    assert queue.take(1_000.0) is None
    assert not queue.holds("a")


def test_a_bucket_saves_up_no_more_than_a_second() -> None:
    bucket = TokenBucket(10.0)
    bucket.wait(1_000.0)
    taken = 0
    while bucket.wait(1_000.0) == 0:
        bucket.take(1_000.0)
        taken += 1
    assert taken == 10


def test_everything_is_due_at_first_and_rows_again_after_a_list() -> None:
    ticks = Ticks(2.0, 60.0)
    assert ticks.numbers_are_due(1.0)
    assert ticks.drift_is_due(1.0)
    assert not ticks.news_is_due(1.0)
    ticks.drift_done(10.0)
    ticks.numbers_done(10.0, 10.0)
    assert ticks.next() == 12.0
    assert not ticks.drift_is_due(69.9)
    ticks.drift_soon(20.0)
    assert ticks.drift_is_due(20.0)


def test_news_is_looked_at_a_quarter_of_a_second_after_the_last_look() -> None:
    ticks = Ticks(2.0, 60.0)
    ticks.drift_done(100.0)
    ticks.numbers_done(100.0, 100.0)
    assert ticks.news_soon(100.1)
    assert not ticks.news_is_due(100.2)
    assert ticks.next() == 100.25
    # whatever else is heard until then changes nothing
    assert not ticks.news_soon(100.2)
    assert ticks.news_is_due(100.25)
    ticks.news_done(100.25, 100.25)
    assert ticks.next() == 102.0
    ticks.numbers_soon(100.3)
    assert not ticks.numbers_are_due(100.4)
    assert ticks.numbers_are_due(100.5)


def test_a_look_that_takes_long_leaves_as_much_time_free() -> None:
    ticks = Ticks(2.0, 60.0)
    ticks.news_done(100.0, 103.0)
    ticks.news_soon(103.1)
    assert not ticks.news_is_due(105.9)
    assert ticks.news_is_due(106.0)
