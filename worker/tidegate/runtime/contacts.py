"""Whether the database answers, told once when it stops and once when it is back."""

import logging
import threading
from dataclasses import dataclass, field

from tidegate.errors import DatabaseError
from tidegate.runtime.clocks import now

log = logging.getLogger("tidegate.worker")

NOTIFICATIONS = "notifications"
"""The one loop that may fail while all others are well, behind a pooler for example: its outage hides no other."""


class Contact:
    """Shared by all loops of a worker, the heartbeat thread included; each reports under a name of its own.

    However many loops fail and however often they try, an outage is one WARNING and its end one INFO.
    """

    def __init__(self) -> None:
        self._calls = _Outage("the database does not answer, trying again", "the database answers again")
        self._notifications = _Outage("no notifications arrive, polling until they do", "notifications arrive again")
        self._lock = threading.Lock()

    def failed(self, loop: str, error: Exception) -> None:
        """Note that a call of this loop failed."""
        outage = self._of(loop)
        with self._lock:
            first = not outage.failing
            outage.failing.add(loop)
            if first:
                outage.since = now()
        if first:
            # What was not foreseen may quote a row, so it is named by its class alone.
            reason = str(error)[:500] if isinstance(error, DatabaseError) else type(error).__name__
            log.warning(outage.begun, extra={"loop": loop, "reason": reason})

    def well(self, loop: str) -> None:
        """Note that a call of this loop succeeded."""
        outage = self._of(loop)
        if self.forget(loop) and not outage.failing:
            log.info(outage.over, extra={"loop": loop, "seconds": round(now() - outage.since, 1)})

    def forget(self, loop: str) -> bool:
        """Note that this loop calls no more, however its last call ended; True when it had failed."""
        outage = self._of(loop)
        with self._lock:
            failed = loop in outage.failing
            outage.failing.discard(loop)
        return failed

    def _of(self, loop: str) -> "_Outage":
        return self._notifications if loop == NOTIFICATIONS else self._calls


@dataclass(slots=True)
class _Outage:
    begun: str
    over: str
    failing: set[str] = field(default_factory=set)
    since: float = 0.0
