"""Runs actors once they have what they reserve: coroutines as tasks of the loop, functions in threads."""

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

from tidegate.errors import InvalidPayload
from tidegate.flow.executions import Lease
from tidegate.flow.intakes import Hold
from tidegate.model.messages import ReceivedMessageT
from tidegate.runtime.failures import describe, trace
from tidegate.runtime.ledgers import Fate, Held, Ledger, Stop
from tidegate.runtime.threads import ActorThreads

log = logging.getLogger("tidegate.worker")


class PayloadSource(Protocol):
    """Fetches payloads that were too large to come with a claim."""

    async def __call__(self, held: Held) -> str | None:
        """Return the payload as JSON text; None where the job is not ours any more."""


class Executor:
    """Starts and stops the code of messages; each ends with exactly one call of ``on_end``.

    Args:
        ledger: where running messages are kept, and those that wait to run.
        reserve: makes a message's lease.
        threads: at most so many.
        grace: after its timeout, code has this long to stop.
        fetch: for payloads that did not come along.
        on_end: takes a message whose code has ended, its ``fate`` set; None where no outcome may be sent.
        on_stuck: called when code goes on past timeout plus grace.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        reserve: Callable[[ReceivedMessageT, Hold], Lease],
        threads: int,
        grace: timedelta,
        fetch: PayloadSource,
        on_end: Callable[[Held], None],
        on_stuck: Callable[[Held], None],
    ) -> None:
        self._ledger = ledger
        self._reserve = reserve
        self._threads = ActorThreads(threads)
        self._grace = grace.total_seconds()
        self._fetch = fetch
        self._on_end = on_end
        self._on_stuck = on_stuck

    def start(self, held: Held) -> None:
        """Start a message's code, at once or when it has its lease; its ``hold`` is set."""
        if held.hold is None:
            raise AssertionError("a message is started without its share of the intake")
        loop = asyncio.get_running_loop()
        self._ledger.active.add(held)
        if held.alone is not None:
            self._start_task(loop, held, self._run_when_alone(held, held.hold, held.alone))
            return
        lease = held.lease = self._reserve(held.message, held.hold)
        if not lease.is_ready:
            self._start_task(loop, held, self._run_when_ready(held, lease))
            return
        if held.payload is None:
            self._start_task(loop, held, self._run_fetched(held))
            return
        self._begin(loop, held)
        arguments = self._arguments(held)
        if arguments is None:
            self._end(held)
        elif held.actor.is_async:
            self._start_task(loop, held, self._run(held, arguments))
        else:
            self._run_elsewhere(loop, held, arguments)

    def stop(self, held: Held, why: Stop) -> None:
        """Ask running code to end; the first reason counts. A thread goes on, and its outcome is judged at its end.

        Each reason cancels once: code that cleans up after a cancellation is not cancelled again for the same one.
        """
        if held.stop is None or why is Stop.LOST:
            held.stop = why
        if why in held.asked:
            return
        held.asked.add(why)
        if held.task is not None:
            held.task.cancel()

    def give_back_unstarted(self) -> None:
        """Give back every message whose code was not started."""
        for held in list(self._ledger.active):
            if not held.started:
                self.stop(held, Stop.GIVE_BACK)

    def give_back_waiting(self, keep: ReceivedMessageT | None) -> None:
        """Give back every message that waits for its lease, but for one.

        Those that have theirs and fetch their payloads stay: a process could give back for ever what it has room for.
        """
        for held in list(self._ledger.active):
            if held.lease is not None and not held.lease.is_ready and held.message is not keep:
                self.stop(held, Stop.GIVE_BACK)

    def abandon(self, held: Held) -> None:
        """Decide the outcome of code that still runs, because the process ends; what it does later counts no more."""
        self._judge(held, asyncio.CancelledError())
        self._end(held)

    def close(self) -> None:
        """Let idle threads end."""
        self._threads.close()

    def _begin(self, loop: asyncio.AbstractEventLoop, held: Held) -> None:
        """Count the timeout from here, where nothing is left to wait for."""
        held.started = True
        if held.timeout is not None:
            held.timer = loop.call_later(held.timeout, self._time_out, held)

    async def _run_when_alone(self, held: Held, hold: Hold, alone: asyncio.Future[None]) -> None:
        try:
            await alone
        except asyncio.CancelledError as error:
            self._judge(held, error)
            self._end(held)
            return
        lease = held.lease = self._reserve(held.message, hold)
        await self._run_when_ready(held, lease)

    async def _run_when_ready(self, held: Held, lease: Lease) -> None:
        try:
            await lease.wait()
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001 - a policy's failure was told by the flow, its message goes back
            self._judge(held, error)
            self._end(held)
            return
        if held.payload is None:
            await self._run_fetched(held)
            return
        await self._run_bound(held)

    async def _run_bound(self, held: Held) -> None:
        loop = asyncio.get_running_loop()
        self._begin(loop, held)
        arguments = self._arguments(held)
        if arguments is None:
            self._end(held)
        elif held.actor.is_async:
            await self._run(held, arguments)
        else:
            held.task = None
            self._run_elsewhere(loop, held, arguments)

    def _run_elsewhere(self, loop: asyncio.AbstractEventLoop, held: Held, arguments: dict[str, Any]) -> None:
        held.in_thread = True
        try:
            self._threads.submit(partial(self._run_in_thread, loop, held, arguments))
        except RuntimeError as error:
            held.in_thread = False
            self._judge(held, error)
            self._end(held)

    def _arguments(self, held: Held) -> dict[str, Any] | None:
        # The text is not kept beside what it becomes: a budget is meant for one of them.
        payload, held.payload = held.payload or "", None
        try:
            return held.actor.bind(payload)
        except Exception as error:  # noqa: BLE001 - validators are the user's code
            held.fate = Fate.REFUSED
            if isinstance(error, InvalidPayload):
                held.error = describe(error)
            else:
                held.error, held.traceback = describe(error), trace(error)
            return None

    async def _run_fetched(self, held: Held) -> None:
        try:
            payload = await self._fetch(held)
        except asyncio.CancelledError as error:
            self._judge(held, error)
            self._end(held)
            return
        except Exception as error:  # noqa: BLE001 - a payload that nobody can read would come round for ever, unspent
            held.fate, held.error, held.traceback = Fate.FAILED, describe(error), trace(error)
            self._end(held)
            return
        if payload is None:
            self._end(held)
            return
        held.payload = payload
        del payload
        await self._run_bound(held)

    async def _run(self, held: Held, arguments: dict[str, Any]) -> None:
        try:
            await held.actor.function(**arguments)
        except GeneratorExit:
            raise  # of an actor, or because the loop is closed under us: a task that ends is settled after its end
        except BaseException as error:  # noqa: BLE001 - sys.exit() in an actor fails its job, not the worker
            self._judge(held, error)
        else:
            self._judge(held, None)
        self._end(held)

    def _run_in_thread(self, loop: asyncio.AbstractEventLoop, held: Held, arguments: dict[str, Any]) -> None:
        raised: BaseException | None = None
        try:
            _refuse_coroutine(held.actor.function(**arguments))
        except BaseException as error:  # noqa: BLE001 - as above
            raised = error
        self._judge(held, raised)
        try:
            loop.call_soon_threadsafe(self._end, held)
        except RuntimeError:
            # The loop is closed: the worker left and gave this job back.
            log.debug("an actor ended after its worker", extra={"job": held.job})

    def _judge(self, held: Held, error: BaseException | None) -> None:
        """Decide the outcome. Whoever was stopped for the worker's sake and did not finish spends no attempt."""
        why = held.stop
        if why is Stop.LOST:
            held.fate = None
        elif not held.started:
            held.fate = Fate.GIVEN_BACK
        elif why is Stop.TIMED_OUT:
            held.fate = Fate.FAILED
            held.error = f"TimeoutError: ran longer than its timeout of {held.timeout:g} s"
            held.traceback = "" if error is None else trace(error)
        elif error is None:
            held.fate = Fate.DONE
        elif why is Stop.GIVE_BACK:
            held.fate = Fate.GIVEN_BACK
        else:
            held.fate = Fate.FAILED
            held.error = "cancelled while it ran" if why is Stop.CANCELLED else describe(error)
            held.traceback = trace(error)

    def _start_task(self, loop: asyncio.AbstractEventLoop, held: Held, code: Coroutine[object, object, None]) -> None:
        task = held.task = loop.create_task(code)
        task.add_done_callback(partial(self._end_unsettled, held))

    def _end_unsettled(self, held: Held, task: asyncio.Task[None]) -> None:
        # A task that is cancelled before its first step never enters our code, and GeneratorExit passes through it.
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if held.task is task and held in self._ledger.active:
            self._judge(held, error)
            self._end(held)

    def _end(self, held: Held) -> None:
        if held not in self._ledger.active:
            return
        if held.timer is not None:
            held.timer.cancel()
        held.task = None
        self._ledger.active.discard(held)
        held.let_go()
        self._on_end(held)

    def _time_out(self, held: Held) -> None:
        log.warning(
            "a job ran longer than its timeout",
            extra={"job": held.job, "actor": held.actor.name, "timeout": held.timeout},
        )
        held.timer = asyncio.get_running_loop().call_later(self._grace, self._on_stuck, held)
        self.stop(held, Stop.TIMED_OUT)


def _refuse_coroutine(result: object) -> None:
    # A plain function that wraps an async one: its job would count as done without having run.
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError("the actor is no async function but returned a coroutine, which nobody would await")
