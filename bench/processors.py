"""The time that a server's process really ran: what others take from it on a busy machine is not in it."""

from pathlib import Path
from time import perf_counter
from typing import Any


def running_time(backend: int) -> float | None:
    """Return the seconds that a backend has run on a processor; None where it is not a process of this machine.

    Linux counts it in nanoseconds and brings it up to date when the process waits, as it does after a reply.
    """
    folder = Path("/proc") / str(backend)
    try:
        if not (folder / "cmdline").read_bytes().startswith(b"postgres"):
            return None
        return int((folder / "schedstat").read_text(encoding="ascii").split()[0]) / 1e9
    except (OSError, IndexError):
        return None


class Stopwatch:
    """Measures calls by the clock and by what their server's process ran; `open` makes it."""

    def __init__(self, backend: int) -> None:
        self._backend = backend
        self._start = perf_counter()
        self._ran = running_time(backend)

    @classmethod
    async def open(cls, connection: Any) -> "Stopwatch":
        """Return one for the server's process of a connection."""
        return cls(await connection.fetchval("select pg_backend_pid()"))

    def start(self) -> None:
        """Begin to measure."""
        self._ran = running_time(self._backend)
        self._start = perf_counter()

    def lap(self, *kept: tuple[list[float], list[float]]) -> None:
        """Append the seconds since the start, by the clock and, where it can be known, of the process; start again."""
        now, ran = perf_counter(), running_time(self._backend)
        for seconds, running in kept:
            seconds.append(now - self._start)
            if ran is not None and self._ran is not None:
                running.append(ran - self._ran)
        self._start, self._ran = now, ran
