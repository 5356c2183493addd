"""How a worker process ends: its exit codes, documented here and nowhere else."""

import logging
import os
import sys
from collections.abc import Callable
from enum import IntEnum

EndProcess = Callable[[int], None]
"""Ends the process at once, without waiting for threads."""


class WorkerExit(IntEnum):
    """Exit codes of ``tidegate worker`` and results of ``WorkerRuntime.run``."""

    CLEAN = 0
    """Drained: every running job finished, or went back before it started."""

    FAILED = 1
    """A limit policy failed, or a part of the worker in a way that nobody foresaw; the log has its traceback. Running
    jobs drained."""

    STALLED = 70
    """Code could not be stopped: the event loop stood still for the stall limit, or a job's code went on past the
    self-fence, or past its timeout plus grace. Its other jobs are rescued or given back, attempt not spent."""

    CUT_SHORT = 75
    """Running jobs were given back unfinished, or outcomes could not be told: the grace period was over, or a second
    signal came."""


def end_process(code: int) -> None:
    """Leave without joining threads that would never end; log records are flushed first."""
    for handler in logging.getLogger().handlers:
        handler.flush()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
