"""I4: no start brings a key above the ``max_running`` in force."""

from collections import Counter
from collections.abc import Iterator

from tidegate.audit.histories import END_KINDS, Event, EventKind
from tidegate.audit.verdicts import Invariant, Violation


class RunningCaps:
    """Counts the running jobs of each key twice: as its events say, and as the database counted under the key's lock.

    A cap lowered below what runs breaks nothing; only a start can. Memory: one entry a running job; time: constant for
    each event.
    """

    def __init__(self) -> None:
        self.highest: dict[str, int] = {}
        """Most jobs of each key that ever ran at once."""
        self.filled = 0
        """Starts that took the last place under a cap: how often the cap was put to the test."""
        self._running: dict[int, str] = {}
        self._counts: Counter[str] = Counter()

    def feed(self, event: Event) -> Iterator[Violation]:
        """Judge the next event."""
        if event.job is None:
            return
        if event.kind is EventKind.STARTED and event.key:
            if event.job not in self._running:
                self._running[event.job] = event.key
                self._counts[event.key] += 1
            now = max(self._counts[event.key], event.running or 0)
            self.highest[event.key] = max(self.highest.get(event.key, 0), now)
            self.filled += now == event.max_running
            if event.max_running is not None and now > event.max_running:
                yield Violation(
                    Invariant.RUNNING,
                    event.seq,
                    f"job {event.job} of key {event.key!r} started as number {now} of at most {event.max_running}",
                )
        elif event.kind in END_KINDS:
            key = self._running.pop(event.job, None)
            if key is not None:
                self._counts[key] -= 1
