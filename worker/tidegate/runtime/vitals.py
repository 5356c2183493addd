"""How a worker is: what its health answers are made of. Read by the threads that answer, so it copies."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace

from tidegate.flow.backpressure import Waiting
from tidegate.flow.flows import Flow, PoolUsage
from tidegate.model.capacity import BackpressureStrategy
from tidegate.runtime.ledgers import Counts, Ledger
from tidegate.runtime.lines import Lines
from tidegate.runtime.watchdogs import Blockage, Watchdog

PATIENCE = 1.0
"""Seconds that an answer waits for a busy event loop before it tells what was so the last time."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What a worker holds at one instant.

    Attributes:
        counts: what happened so far.
        held: messages whose outcome is not acknowledged.
        running: those whose code runs.
        waiting: those that wait to run, for whatever reason.
        waits: for which pool or policy, as far as it is known.
        pools: what every pool holds.
        pauses: how often backpressure paused intake, by strategy and queue.
        closed: why nothing is taken in, by queue; empty reasons where something is.
        closings: how often there was no room for another message, by queue.
    """

    counts: Counts = field(default_factory=Counts)
    held: int = 0
    running: int = 0
    waiting: int = 0
    waits: tuple[Waiting, ...] = ()
    pools: tuple[PoolUsage, ...] = ()
    pauses: Mapping[tuple[BackpressureStrategy, str], int] = field(default_factory=dict)
    closed: Mapping[str, list[str]] = field(default_factory=dict)
    closings: Mapping[str, int] = field(default_factory=dict)


class Vitals:
    """Answers for one worker.

    Args:
        ledger: what is held.
        flow: what may be held.
        lines: the queues.
        watchdog: of the main loop.
        is_drained: whether nothing is claimed any more and nothing held.
    """

    def __init__(
        self, ledger: Ledger, flow: Flow, lines: Lines, watchdog: Watchdog, *, is_drained: Callable[[], bool]
    ) -> None:
        self._ledger = ledger
        self._flow = flow
        self._lines = lines
        self._watchdog = watchdog
        self._is_drained = is_drained
        self._dead: list[str] = []
        self._last = Sample()

    def died(self, loop: str, error: BaseException) -> None:
        """Note that a loop of the worker ended on its own; its error is named by its class, for it may quote a row."""
        self._dead.append(f"the loop of the {loop} ended: {type(error).__name__}")

    def problems(self) -> list[str]:
        """Return why the worker does not do its work any more; nothing while it does, however busy it is."""
        failure = self._flow.failure
        return [*self._dead, *([] if failure is None else [str(failure)])]

    @property
    def blocked(self) -> Blockage | None:
        """What blocks the event loop."""
        return self._watchdog.blocked

    @property
    def is_drained(self) -> bool:
        """It was told to drain or stop, and has: whoever ends it now loses nothing."""
        return self._is_drained()

    def sample(self) -> Sample:
        """Return what it holds, from any thread but the main one; a blocked loop answers with the last that it told."""
        answer: Future[Sample] = Future()

        def look() -> None:
            if answer.set_running_or_notify_cancel():
                answer.set_result(self._look())

        self._watchdog.tell(look)
        with suppress(TimeoutError):
            self._last = answer.result(timeout=PATIENCE)
        answer.cancel()
        return self._last

    def _look(self) -> Sample:
        ledger, backpressure = self._ledger, self._flow.backpressure
        running = sum(held.started for held in ledger.active)
        return Sample(
            counts=replace(ledger.counts),
            held=len(ledger.held),
            running=running,
            waiting=len(ledger.active) - running,
            waits=tuple(backpressure.waiting()),
            pools=tuple(self._flow.usage()),
            pauses=dict(backpressure.counts),
            closed={queue: backpressure.reasons(queue) for queue in self._lines.names},
            closings=self._lines.closings(),
        )
