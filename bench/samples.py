"""Medians, percentiles and ratios of interleaved samples. All times are seconds unless a name says otherwise."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

BLOCK = 40
"""Samples of one block: the spread is that of the ratios of the blocks' medians."""


@dataclass(slots=True)
class Timings:
    """Seconds of each sample of one side.

    Attributes:
        claim: a claim by itself.
        both: claim and finish together.
        claim_ran: the part of ``claim`` in which the server's process really ran, where that can be known.
        both_ran: the same of ``both``.
    """

    claim: list[float] = field(default_factory=list)
    both: list[float] = field(default_factory=list)
    claim_ran: list[float] = field(default_factory=list)
    both_ran: list[float] = field(default_factory=list)


def milliseconds(samples: Sequence[float]) -> float:
    """Return the median in milliseconds."""
    return median(samples) * 1e3


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the smallest sample that at least ``share`` (0 to 1) of them do not exceed."""
    ranked = sorted(samples)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]


def ratio(ours: Sequence[float], bare: Sequence[float]) -> float:
    """Return how many times the other's median ours is."""
    return median(ours) / median(bare)


def spread(ours: Sequence[float], bare: Sequence[float], block: int = BLOCK) -> str:
    """Return the least and the greatest ratio among blocks of samples taken side by side."""
    starts = range(0, len(ours), block)
    ratios = [ratio(ours[start : start + block], bare[start : start + block]) for start in starts]
    return f"{min(ratios):.2f} to {max(ratios):.2f} in blocks of {block}"


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the median: two of the values, by the binomial distribution of ranks.

    For 15 values they are the fourth from either end, with 96.5 %.
    """
    ranked = sorted(values)
    n = len(ranked)
    cut = 0
    while 2 * sum(math.comb(n, k) for k in range(cut + 1)) / 2**n <= 0.05:
        cut += 1
    cut = max(cut - 1, 0)
    return ranked[cut], ranked[n - 1 - cut]
