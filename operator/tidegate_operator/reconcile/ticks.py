"""When the reconciler does what without being told. Instants are seconds of one monotonic clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SOONEST: Final = 0.25
"""Least seconds between two looks at live numbers, however much news there is."""

NEVER: Final = float("inf")


@dataclass
class Ticks:
    """Two intervals, in seconds, and news between them; everything but news is due at first."""

    numbers_every: float
    drift_every: float
    _numbers_at: float = 0.0
    _drift_at: float = 0.0
    _news_at: float = NEVER
    _free_at: float = 0.0

    def numbers_are_due(self, now: float) -> bool:
        """Tell whether live numbers are to be read."""
        return now >= self._numbers_at

    def drift_is_due(self, now: float) -> bool:
        """Tell whether every row is to be compared with its object."""
        return now >= self._drift_at

    def news_is_due(self, now: float) -> bool:
        """Tell whether the queues that have news are to be looked at."""
        return now >= self._news_at

    def numbers_done(self, began: float, now: float) -> None:
        """Remember that numbers were read, all of them, from ``began`` to ``now``."""
        self._numbers_at = began + self.numbers_every
        self.news_done(began, now)

    def news_done(self, began: float, now: float) -> None:
        """Remember that news was looked at; the next look waits at least as long as this one took."""
        self._news_at, self._free_at = NEVER, now + max(SOONEST, now - began)

    def numbers_soon(self, now: float) -> None:
        """Make all numbers due at once, but `SOONEST` after the last look at the soonest."""
        self._numbers_at = min(self._numbers_at, max(now, self._free_at))

    def news_soon(self, now: float) -> bool:
        """Make a look at news due, as soon as it may be; False where that was so already."""
        if self._news_at < NEVER:
            return False
        self._news_at = max(now, self._free_at)
        return True

    def drift_done(self, now: float) -> None:
        """Remember that every row was compared."""
        self._drift_at = now + self.drift_every

    def drift_soon(self, now: float) -> None:
        """Make every row due: a full list was made, and may have shown what is gone."""
        self._drift_at = min(self._drift_at, now)

    def next(self) -> float:
        """Return the next instant at which something is due."""
        return min(self._numbers_at, self._drift_at, self._news_at)
