"""The leader's loops, each of which has to show that it turns: one that hangs or ends is not to go unnoticed."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable
from typing import Final

logger = logging.getLogger(__name__)

REST: Final = 30.0
"""Most seconds that a loop rests before it shows that it turns."""


class LoopEnded(RuntimeError):  # noqa: N818 - says what happened
    """A loop that ought to turn until it is cancelled came to its end."""


class Beats:
    """When each loop was last seen to turn, on the monotonic clock."""

    def __init__(self) -> None:
        self._at: dict[str, float] = {}

    def beat(self, loop: str) -> None:
        """Show that a loop turns."""
        self._at[loop] = time.monotonic()

    @property
    def loops(self) -> set[str]:
        """The loops that have turned."""
        return set(self._at)

    def clear(self) -> None:
        """Expect nothing of any loop: the work has ended."""
        self._at.clear()

    def late(self, after: float) -> str | None:
        """Return what is wrong where a loop has not turned for ``after`` seconds."""
        now = time.monotonic()
        idle = {loop: now - at for loop, at in self._at.items() if now - at > after}
        return ", ".join(f"{loop} has not turned for {seconds:.0f} s" for loop, seconds in sorted(idle.items())) or None


async def turning(loop: str, work: Awaitable[None]) -> None:
    """Await the work of a loop, and say in the log what ended it; a cancellation is no such end.

    Raises:
        LoopEnded: it returned.
        Exception: what it raised.
    """
    try:
        await work
    except Exception as error:
        logger.error("a loop has ended", extra={"loop": loop, "error": f"{type(error).__name__}: {error}"})  # noqa: TRY400 - whoever catches it has the traceback
        raise
    logger.error("a loop has ended", extra={"loop": loop})
    raise LoopEnded(f"{loop} has ended by itself")
