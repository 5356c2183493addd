"""What the checkers say."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

SHOWN = 20
"""Violations that a printed verdict lists; the counts cover all."""


class Invariant(StrEnum):
    """The invariants of reliability.md that a history decides."""

    LOST = "I1"
    FALSE_RESCUE = "I2"
    TOKEN = "I3"  # noqa: S105 - the invariant about tokens
    RUNNING = "I4"
    DRIFT = "I5"
    STARTS = "I6"
    EARLY = "I7"
    ATTEMPTS = "I8"
    AUDIT = "AUDIT"


MEANING = {
    Invariant.LOST: "jobs lost or stuck",
    Invariant.FALSE_RESCUE: "false rescues",
    Invariant.TOKEN: "stale outcomes accepted, jobs running twice at once",
    Invariant.RUNNING: "starts above max_running",
    Invariant.DRIFT: "counts that drifted",
    Invariant.STARTS: "starts above max_starts in a window",
    Invariant.EARLY: "starts that were not allowed yet or any more",
    Invariant.ATTEMPTS: "attempts spent by infrastructure",
    Invariant.AUDIT: "contradictions in the history itself",
}
"""What is counted under each invariant, for tables."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that must not happen and did. ``seq`` is the event that shows it, 0 for the end of the history."""

    invariant: Invariant
    seq: int
    what: str

    def __str__(self) -> str:
        return f"{self.invariant} at event {self.seq}: {self.what}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of ``judge``.

    Attributes:
        violations: in the order of the history.
        starts: how many starts were judged.
        jobs: how many jobs were enqueued.
        keys: how many limit keys had a start.
    """

    violations: Sequence[Violation]
    starts: int
    jobs: int
    keys: int

    def count(self, invariant: Invariant) -> int:
        """Return how often this invariant was violated."""
        return sum(violation.invariant is invariant for violation in self.violations)

    def __str__(self) -> str:
        head = f"{len(self.violations)} violations in {self.starts} starts of {self.jobs} jobs under {self.keys} keys"
        if not self.violations:
            return head
        counts = Counter(violation.invariant for violation in self.violations)
        lines = [f"  {each} {MEANING[each]}: {counts[each]}" for each in Invariant if counts[each]]
        lines += [f"  {violation}" for violation in self.violations[:SHOWN]]
        if len(self.violations) > SHOWN:
            lines.append(f"  and {len(self.violations) - SHOWN} more")
        return "\n".join([head, *lines])
