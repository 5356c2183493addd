"""Two clocks: one that counts a suspended machine's sleep, and an estimate of the database's."""

import time
from datetime import datetime


def now() -> float:
    """Return seconds on a clock that only moves forward and, where the system can, also counts time in suspend.

    A lease runs out while a laptop sleeps, so a clock that stops with it would let a worker believe in its lease.
    """
    return _read()


def _boot_clock() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


_read = _boot_clock if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic


class DatabaseClock:
    """Translates instants of the database's clock to `now`, as exact as half a round trip."""

    def __init__(self) -> None:
        self._offset = now() - time.time()

    def observe(self, instant: datetime, sent: float, received: float) -> None:
        """Note that the database said ``instant`` somewhere between ``sent`` and ``received``."""
        self._offset = (sent + received) / 2 - instant.timestamp()

    def local(self, instant: datetime) -> float:
        """Return the moment of `now` at which the database's clock shows ``instant``."""
        return instant.timestamp() + self._offset
