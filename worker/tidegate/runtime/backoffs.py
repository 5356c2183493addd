"""Waits between tries: doubling, with full jitter, so that workers do not come back in step."""

import random


class Backoff:
    """Draws each wait from zero to a bound that doubles from ``first`` to ``longest`` seconds."""

    def __init__(self, first: float = 0.05, longest: float = 5.0) -> None:
        self._first = first
        self._longest = longest
        self._bound = first

    def next(self) -> float:
        """Return the next wait in seconds."""
        bound, self._bound = self._bound, min(self._bound * 2, self._longest)
        return random.uniform(bound / 10, bound)  # noqa: S311 - spreads load, guards nothing

    def reset(self) -> None:
        """Begin again with the first bound."""
        self._bound = self._first


def jittered(seconds: float, most: float = 1.25) -> float:
    """Return ``seconds`` times a factor drawn from 1 to ``most``."""
    return seconds * random.uniform(1.0, most)  # noqa: S311 - spreads load, guards nothing
