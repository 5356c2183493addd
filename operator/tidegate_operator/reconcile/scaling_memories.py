"""What scaling remembers of a Deployment from one decision to the next.

Immutable, so that a decision whose write failed is simply made again. A new operator starts without any memory, and
treats the workers that are there as wanted: the first look after a restart takes nobody away.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

GROWTH_PERIOD: Final = 15.0
"""Seconds within which the replicas may at most double or grow by `GROWTH_STEP`, whichever is more."""

GROWTH_STEP: Final = 4
"""Replicas that may always be added within one period."""

RIVALRY_SPAN: Final = 300.0
"""Seconds within which `RIVALRY_CHANGES` changes by somebody else mean that another autoscaler is at work."""

RIVALRY_CHANGES: Final = 3
"""One change by somebody else is a person or an upgrade; this many are a program."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Instants are seconds of one monotonic clock.

    Args:
        recommendations: (instant, workers), strictly falling: all that the maximum of a sliding window needs.
        growths: (instant, replicas before) of recent steps up.
        busy_at: when there was work last.
        seen: replicas at the last look.
        written: replicas that the last plan asked for, None where it asked for nothing.
        rivalries: instants at which the replicas were found changed by somebody else.
    """

    recommendations: tuple[tuple[float, int], ...] = ()
    growths: tuple[tuple[float, int], ...] = ()
    busy_at: float | None = None
    seen: int | None = None
    written: int | None = None
    rivalries: tuple[float, ...] = ()

    def looked(self, replicas: int, now: float) -> Memory:
        """Take in the replicas found: changed neither by the last plan nor not at all, somebody else changed them."""
        recent = tuple(at for at in self.rivalries if now - at < RIVALRY_SPAN)
        if self.seen is not None and replicas not in {self.seen, self.written}:
            recent = (*recent, now)
        return replace(self, seen=replicas, rivalries=recent)

    @property
    def rivalled(self) -> bool:
        """Another autoscaler writes the replicas too."""
        return len(self.rivalries) >= RIVALRY_CHANGES

    def recommended(self, workers: int, present: int, now: float, window: float) -> Memory:
        """Take in a recommendation; the first one ever stands beside the workers that are there."""
        kept = self.recommendations or ((now, present),)
        kept = tuple((at, n) for at, n in kept if now - at < window and n > workers)
        return replace(self, recommendations=(*kept, (now, workers)))

    @property
    def highest(self) -> int:
        """The highest recommendation of the window."""
        return self.recommendations[0][1]

    def worked(self, busy: bool, now: float) -> Memory:
        """Take in whether there is work; what is not known counts as work just now."""
        return replace(self, busy_at=now) if busy or self.busy_at is None else self

    def idle_for(self, now: float) -> float:
        """Seconds since there was work."""
        return 0.0 if self.busy_at is None else now - self.busy_at

    def most_replicas(self, now: float) -> int:
        """Return how many replicas the pace of growth allows now."""
        base = min([self.seen or 0, *(before for at, before in self.growths if now - at < GROWTH_PERIOD)])
        return max(2 * base, base + GROWTH_STEP)

    def planned(self, before: int, after: int | None, now: float) -> Memory:
        """Take in what the plan asks for."""
        growths = tuple((at, n) for at, n in self.growths if now - at < GROWTH_PERIOD)
        if after is not None and after > before:
            growths = (*growths, (now, before))
        return replace(self, growths=growths, written=after)

    def forgetting(self) -> Memory:
        """Forget demand, because for a while nobody could see it; changes by others are still remembered."""
        return replace(self, recommendations=(), growths=(), busy_at=None)
