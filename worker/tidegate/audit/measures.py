"""Figures out of a history: what a proof prints beside "0 violations"."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegate.audit.caps import RunningCaps
from tidegate.audit.histories import Event, EventKind
from tidegate.audit.rates import StartRates


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds from enqueue to first start. ``unstarted`` jobs count as waiting until the end of the watch."""

    jobs: int
    unstarted: int
    p50: float
    longest: float


def highest_running(events: Iterable[Event]) -> dict[str, int]:
    """Return the most jobs of each key that ran at once: counted under the key's lock, or replayed if that is more."""
    return _replay(events)[0].highest


def count_tests(events: Iterable[Event]) -> tuple[int, int]:
    """Return how many starts took the last place under a ``max_running``, and how many the last under a ``max_starts``.

    A history in which no limit ever bound proves nothing about limits.
    """
    caps, rates = _replay(events)
    return caps.filled, rates.filled


def highest_starts(events: Iterable[Event], key: str, window: timedelta) -> int:
    """Return the most starts of the key within any half-open window of this length."""
    marks: deque[datetime] = deque()
    highest = 0
    for instant in sorted(_starts(events, key)):
        marks.append(instant)
        while marks[0] <= instant - window:
            marks.popleft()
        highest = max(highest, len(marks))
    return highest


def measure_waits(events: Sequence[Event], key: str, end: datetime) -> Waits:
    """Return how long the jobs of a key waited for their first start; ``end`` is when watching stopped."""
    since: dict[int, datetime] = {}
    waits: list[float] = []
    for event in events:
        if event.key != key or event.job is None:
            continue
        if event.kind is EventKind.ENQUEUED:
            since[event.job] = event.at
        elif event.kind is EventKind.STARTED and event.job in since:
            waits.append(((event.started_at or event.at) - since.pop(event.job)).total_seconds())
    unstarted = len(since)
    waits += [(end - at).total_seconds() for at in since.values()]
    waits.sort()
    if not waits:
        return Waits(0, 0, 0.0, 0.0)
    return Waits(len(waits), unstarted, waits[(len(waits) - 1) // 2], waits[-1])


def _replay(events: Iterable[Event]) -> tuple[RunningCaps, StartRates]:
    caps, rates = RunningCaps(), StartRates()
    for event in events:
        for _ in (*caps.feed(event), *rates.feed(event)):
            pass
    return caps, rates


def _starts(events: Iterable[Event], key: str) -> Iterable[datetime]:
    return (event.started_at or event.at for event in events if event.kind is EventKind.STARTED and event.key == key)
