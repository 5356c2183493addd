"""How long a run may take: quick (five minutes, for CI), plain, or full (the sizes and the minutes of every bar)."""

from enum import Enum
from typing import TypeVar

T = TypeVar("T")


class Form(Enum):
    """One of the three forms of ``make bench``."""

    QUICK = "quick"
    PLAIN = "plain"
    FULL = "full"

    def pick(self, quick: T, plain: T, full: T) -> T:
        """Return what this form takes: samples, sizes or seconds."""
        return {Form.QUICK: quick, Form.PLAIN: plain, Form.FULL: full}[self]
