"""When the reconciler does what without being told. Instants are seconds of one monotonic clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SOONEST: Final = 0.25
"""Least seconds between two looks at live numbers, however much news there is."""


RELIST_EVERY: Final = 5.0
"""Least seconds between two full lists: a watch that began anew tells of its objects one by one, for seconds."""


@dataclass
class Ticks:
    """Three intervals, in seconds; everything is due at first."""

    numbers_every: float
    drift_every: float
    list_every: float
    _numbers_at: float = 0.0
    _drift_at: float = 0.0
    _list_at: float = 0.0
    _listed_at: float = -RELIST_EVERY

    def numbers_are_due(self, now: float) -> bool:
        """Tell whether live numbers are to be read."""
        return now >= self._numbers_at

    def drift_is_due(self, now: float) -> bool:
        """Tell whether every row is to be compared with its object."""
        return now >= self._drift_at

    def list_is_due(self, now: float) -> bool:
        """Tell whether a full list is to be made."""
        return now >= self._list_at

    def list_soon(self, now: float) -> None:
        """Make a full list due at once, but `RELIST_EVERY` after the last one at the soonest."""
        self._list_at = min(self._list_at, max(now, self._listed_at + RELIST_EVERY))

    def numbers_done(self, now: float) -> None:
        """Remember that numbers were read."""
        self._numbers_at = now + self.numbers_every

    def numbers_soon(self, now: float) -> None:
        """Make numbers due at once, but a quarter of a second after the last look at the soonest."""
        earliest = self._numbers_at - self.numbers_every + SOONEST
        self._numbers_at = min(self._numbers_at, max(now, earliest))

    def drift_done(self, now: float) -> None:
        """Remember that every row was compared."""
        self._drift_at = now + self.drift_every

    def list_done(self, now: float) -> None:
        """Remember that a full list was made: every row is due after it, for what the list has shown to be gone."""
        self._listed_at = now
        self._list_at = now + self.list_every
        self._drift_at = now

    def next(self) -> float:
        """Return the next instant at which something is due."""
        return min(self._numbers_at, self._drift_at, self._list_at)
