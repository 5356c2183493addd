"""Watches the main event loop from another thread: says what blocks it, and ends a process whose loop stands still."""

import asyncio
import logging
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import CodeType

from tidegate.runtime.endings import EndProcess, WorkerExit
from tidegate.runtime.ledgers import Ledger

log = logging.getLogger("tidegate.worker")

_SHOWN_ACTORS = 10


@dataclass(frozen=True, slots=True)
class Blockage:
    """The main loop does not turn.

    Attributes:
        actor: whose code runs on it and does not let go; None where it is other code.
        at: file, line and function.
        seconds: for how long it was seen to stand.
    """

    actor: str | None
    at: str
    seconds: float


class Watchdog:
    """Asks the main loop for a sign of life, and judges how long it takes. All but `attach` is for the other thread.

    Args:
        ledger: whose code runs.
        warn_after: seconds after which a blockage is told of.
        stall_limit: seconds after which the process ends.
        end: ends it.

    Attributes:
        blocked: what is known of a blockage that goes on; readable from any thread.
    """

    def __init__(self, ledger: Ledger, *, warn_after: float, stall_limit: float, end: EndProcess) -> None:
        self._ledger = ledger
        self._warn_after = warn_after
        self._stall_limit = stall_limit
        self._end = end
        self._main: asyncio.AbstractEventLoop | None = None
        self._main_thread = 0
        self._asked = False
        self._unanswered = 0.0
        self.blocked: Blockage | None = None

    def attach(self) -> None:
        """Watch the running loop from here on."""
        self._main = asyncio.get_running_loop()
        self._main_thread = threading.get_ident()

    def tell(self, call: Callable[..., None], *args: object) -> None:
        """Make a call on the main loop."""
        if self._main is not None:
            with suppress(RuntimeError):  # the main loop is closed, nobody is left to tell
                self._main.call_soon_threadsafe(call, *args)

    def look(self, seconds: float) -> None:
        """Judge the time since the last look, of which so many seconds count."""
        if not self._asked:
            self._asked = True
            self.tell(self._answered)
            return
        self._unanswered += seconds
        if self._unanswered <= self._warn_after:
            return
        first = self.blocked is None
        self.blocked = blockage = self._blockage()
        fields = {"actor": blockage.actor, "at": blockage.at, **self.running()}
        if first:
            log.warning("the event loop is blocked", extra=fields)
        if self._unanswered > self._stall_limit:
            log.critical("the event loop stood still, the process ends", extra={"seconds": blockage.seconds, **fields})
            self._end(WorkerExit.STALLED)

    def running(self) -> dict[str, object]:
        """Return whose code runs, for a log line."""
        active = [held for held in list(self._ledger.active) if held.started]
        return {"running": len(active), "actors": sorted({held.actor.name for held in active})[:_SHOWN_ACTORS]}

    def _answered(self) -> None:
        self._asked = False
        self._unanswered = 0.0
        self.blocked = None

    def _blockage(self) -> Blockage:
        frame = sys._current_frames().get(self._main_thread)  # noqa: SLF001 - the only way to see another thread
        at = "unknown"
        if frame is not None:
            at = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"
        codes: dict[CodeType | None, str] = {
            getattr(held.actor.function, "__code__", None): held.actor.name
            for held in list(self._ledger.active)
            if held.started and not held.in_thread
        }
        actor = None
        while frame is not None and actor is None:
            actor = codes.get(frame.f_code)
            frame = frame.f_back
        return Blockage(actor, at, round(self._unanswered, 1))
