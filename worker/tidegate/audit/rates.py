"""I6: no more starts in any sliding window than ``max_starts``, by instants that are honest."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tidegate.audit.histories import Event, EventKind
from tidegate.audit.verdicts import Invariant, Violation


@dataclass(slots=True)
class KeyClock:
    """Start marks of one key, and how late the recorder's clock was.

    Attributes:
        floor: marks up to here may be gone and are not counted: a wider window counts the marks that still exist, so
            those that the narrower one let go count no more, and a policy without max_starts keeps none.
        marks: counted starts, oldest first.
        before: the recorder's clock at the last event under the key's lock by another transaction than ``xid``.
    """

    max_starts: int | None = None
    window: timedelta | None = None
    max_running: int | None = None
    floor: datetime | None = None
    marks: deque[datetime] = field(default_factory=deque)
    xid: int | None = None
    last: datetime | None = None
    before: datetime | None = None

    def pass_lock(self, event: Event) -> None:
        """Note that the transaction of this event holds the key's lock."""
        if event.xid != self.xid:
            self.xid, self.before = event.xid, self.last
        self.last = event.at

    def replace(self, event: Event) -> None:
        """Put another policy in force."""
        gone = event.at if self.window is None else event.at - self.window
        self.floor = gone if self.floor is None else max(self.floor, gone)
        self.max_running = event.max_running
        self.max_starts, self.window = event.max_starts, event.rate_window

    def mark(self, instant: datetime) -> int:
        """Count a start at this instant; return the starts in the window that ends there."""
        if self.window is None:
            return 0
        self.marks.append(instant)
        edge = instant - self.window if self.floor is None else max(instant - self.window, self.floor)
        while self.marks and self.marks[0] <= edge:
            self.marks.popleft()
        return len(self.marks)


class StartRates:
    """Replays the start marks of every key under its policies. Amortised constant time for each event."""

    def __init__(self) -> None:
        self.highest: dict[str, int] = {}
        """Most starts of each key in a window of its policy."""
        self.filled = 0
        """Starts that were the last one allowed in their window: how often the rate was put to the test."""
        self._clocks: dict[str, KeyClock] = {}

    def feed(self, event: Event) -> Iterator[Violation]:
        """Judge the next event."""
        if not event.key or event.kind not in {EventKind.STARTED, EventKind.POLICY}:
            return
        clock = self._clocks.setdefault(event.key, KeyClock())
        clock.pass_lock(event)
        if event.kind is EventKind.POLICY:
            clock.replace(event)
            return
        known = (clock.max_running, clock.max_starts, clock.window)
        if known != (event.max_running, event.max_starts, event.rate_window):
            yield Violation(
                Invariant.AUDIT,
                event.seq,
                f"job {event.job} started under a policy of {event.key!r} that no event shows",
            )
        yield from self._started(event, clock)

    def _started(self, event: Event, clock: KeyClock) -> Iterator[Violation]:
        where = f"job {event.job} of key {event.key!r}"
        instant = event.started_at or event.at
        if event.began is not None and instant <= event.began:
            yield Violation(
                Invariant.STARTS, event.seq, f"{where} was dated {event.began - instant} before its transaction began"
            )
            instant = event.began
        if clock.before is not None and instant < clock.before:
            yield Violation(
                Invariant.STARTS, event.seq, f"{where} was dated {clock.before - instant} before its key was locked"
            )
            instant = clock.before
        starts = clock.mark(instant)
        if event.key is not None and clock.window is not None:
            self.highest[event.key] = max(self.highest.get(event.key, 0), starts)
        self.filled += starts == clock.max_starts
        if clock.max_starts is not None and starts > clock.max_starts:
            yield Violation(
                Invariant.STARTS, event.seq, f"{where} was start {starts} of {clock.max_starts} within {clock.window}"
            )
