"""The worker's own view of its lease, shared by the main loop and the heartbeat thread."""

from datetime import timedelta

from tidegate.runtime.clocks import now


class Lease:
    """Good until ``fence`` after the start of the last good heartbeat, whatever the database thinks since then.

    ``fence`` is shorter than the lease, after which others may take the jobs.
    """

    def __init__(self, fence: timedelta) -> None:
        self._fence = fence.total_seconds()
        self._good_at = now()

    def renew(self, started: float) -> None:
        """Count from the start of a heartbeat that the database answered: later would be too generous."""
        self._good_at = max(self._good_at, started)

    def is_good(self) -> bool:
        """Tell whether jobs may start and go on."""
        return now() - self._good_at < self._fence
