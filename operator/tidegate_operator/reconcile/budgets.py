"""How many status writes an API server gets: two buckets, and transitions always before numbers.

20 writes a second cost a tenth of a core on both sides; a first Ready or a changed condition must not wait behind them.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")

TRANSITIONS_A_SECOND = 100.0
NUMBERS_A_SECOND = 20.0
NUMBERS_EVERY = 5.0
"""Least seconds between two refreshes of one object's numbers."""


@dataclass
class TokenBucket:
    """``rate`` tokens a second, at most one second's worth at once. Instants are seconds of one monotonic clock."""

    rate: float
    tokens: float = 1.0
    at: float = 0.0

    def wait(self, now: float) -> float:
        """Return seconds until a token is there; 0 when one is."""
        self.tokens = min(self.rate, self.tokens + max(0.0, now - self.at) * self.rate)
        self.at = now
        return 0.0 if self.tokens >= 1 else (1 - self.tokens) / self.rate

    def take(self, now: float) -> None:
        """Take a token, which `wait` said is there."""
        self.wait(now)
        self.tokens -= 1


@dataclass
class WriteQueue(Generic[T]):
    """What is to be written, the newest for each object, in two classes. Holds no clock: callers give the instant."""

    transitions: TokenBucket = field(default_factory=lambda: TokenBucket(TRANSITIONS_A_SECOND))
    numbers: TokenBucket = field(default_factory=lambda: TokenBucket(NUMBERS_A_SECOND))
    _urgent: dict[Hashable, T] = field(default_factory=dict)
    _refreshes: dict[Hashable, T] = field(default_factory=dict)
    _written: dict[Hashable, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._urgent) + len(self._refreshes)

    def offer(self, key: Hashable, item: T, *, urgent: bool) -> None:
        """Put in what an object's status should be; it replaces an earlier one that was not written yet.

        An object keeps its place: what waits longest goes first.
        """
        if urgent or key in self._urgent:
            self._refreshes.pop(key, None)
            self._urgent[key] = item
        else:
            self._refreshes[key] = item

    def holds(self, key: Hashable) -> bool:
        """Tell whether something waits for an object."""
        return key in self._urgent or key in self._refreshes

    def withdraw(self, key: Hashable) -> None:
        """Forget what waits for an object: its status is right as it stands, or it is gone."""
        self._urgent.pop(key, None)
        self._refreshes.pop(key, None)

    def forget(self, key: Hashable) -> None:
        """Forget an object that is gone."""
        self.withdraw(key)
        self._written.pop(key, None)

    def take(self, now: float) -> T | None:
        """Return the next item that may be written now, or None; see `wait` for when to ask again."""
        if self._urgent and self.transitions.wait(now) == 0:
            key = next(iter(self._urgent))
            self.transitions.take(now)
            self._written[key] = now
            return self._urgent.pop(key)
        if not self._urgent and self._refreshes and self.numbers.wait(now) == 0:
            due = next((key for key in self._refreshes if self._due(key, now) == 0), None)
            if due is not None:
                self.numbers.take(now)
                self._written[due] = now
                return self._refreshes.pop(due)
        return None

    def wait(self, now: float) -> float | None:
        """Return seconds until `take` may have something; None while nothing waits."""
        if self._urgent:
            return self.transitions.wait(now)
        if self._refreshes:
            return max(self.numbers.wait(now), min(self._due(key, now) for key in self._refreshes))
        return None

    def _due(self, key: Hashable, now: float) -> float:
        return max(0.0, self._written.get(key, now - NUMBERS_EVERY) + NUMBERS_EVERY - now)
