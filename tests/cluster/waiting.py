"""Waiting for a cluster, which says in its own time that something has come about."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 60
"""Seconds after which a test fails; what it waits for usually takes one or two."""

BETWEEN_LOOKS = 0.1


def eventually(look: Callable[[], T | None], what: str, patience: float = PATIENCE) -> T:
    """Look until there is something to see (anything but None and False), and return it."""
    end = time.monotonic() + patience
    while True:
        seen = look()
        if seen is not None and seen is not False:
            return seen
        assert time.monotonic() < end, f"{what}: not within {patience} s"
        time.sleep(BETWEEN_LOOKS)
