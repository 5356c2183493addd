"""The worker process: its parts put together, its start, and its ways to end."""

import asyncio
import logging
from dataclasses import asdict, replace
from typing import TYPE_CHECKING
from uuid import UUID

from tidegate.errors import DatabaseError
from tidegate.flow.flows import Flow
from tidegate.flow.scopes import Scopes
from tidegate.model.addresses import parse_address
from tidegate.model.defaults import MAX_SLOTS
from tidegate.model.messages import ReceivedMessageT
from tidegate.ports import HeartbeatReply, ListenerPort, WorkerGone, WorkerStorePort
from tidegate.runtime.claimer import Claimer
from tidegate.runtime.clocks import DatabaseClock
from tidegate.runtime.contacts import Contact
from tidegate.runtime.endings import EndProcess, WorkerExit, end_process
from tidegate.runtime.executor import Executor
from tidegate.runtime.hearing import Hearing
from tidegate.runtime.heartbeats import Heartbeats
from tidegate.runtime.leases import Lease
from tidegate.runtime.ledgers import Counts, Held, Ledger, Snapshot, Stop
from tidegate.runtime.lines import Lines
from tidegate.runtime.outcomes import Outcomes
from tidegate.runtime.payloads import PayloadFetcher
from tidegate.runtime.pressures import Pressures
from tidegate.runtime.registrar import Registrar
from tidegate.runtime.rescuer import Rescuer
from tidegate.runtime.settings import WorkerSettings
from tidegate.runtime.signals import stopping_signals
from tidegate.runtime.vitals import Vitals
from tidegate.runtime.wakers import Waker
from tidegate.runtime.watchdogs import Watchdog

if TYPE_CHECKING:
    from tidegate.runtime.health import HealthServer

log = logging.getLogger("tidegate.worker")

UNWIND = 1.0
"""Seconds that cancelled coroutines get to end before their jobs are given back."""

LAST_CALLS = 5.0
"""Seconds for telling the database the last outcomes, and for leaving it."""

_CANCEL = "cancel:"


class WorkerRuntime:
    """Runs jobs until it is stopped.

    Args:
        settings: what it does, and how patiently.
        scopes: how much it holds and runs at once; its actors are what it can run.
        store: the database.
        listener: notifications from it.
        end: how the process is ended when code cannot be stopped; see ``WorkerExit``.

    Raises:
        ConfigurationError: the scopes contradict each other, or demand backpressure that cannot be had.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        scopes: Scopes,
        store: WorkerStorePort,
        listener: ListenerPort,
        *,
        end: EndProcess = end_process,
    ) -> None:
        self._settings = settings
        self._store = store
        self._end = end
        self._ledger = Ledger()
        self._contact = Contact()
        self._lines = Lines(settings.queues, settings.poll.total_seconds())
        self._waker = Waker(store)
        self._outcomes = Outcomes(self._ledger, store, self._waker.wake)
        self._flow = Flow(
            worker=scopes.worker,
            channels=scopes.channels,
            actors=scopes.actors,
            propagation=scopes.propagation,
            events=Pressures(
                room=self._room, give_back=self._give_back_waiting, listen=self._listen, fail=self._policy_failed
            ),
        )
        actors = {actor.name: actor.data for actor in scopes.actors}
        slots = min(self._flow.most_messages(settings.queues) or MAX_SLOTS, MAX_SLOTS)
        self._executor = Executor(
            self._ledger,
            reserve=self._flow.execution.reserve,
            threads=slots,
            grace=settings.grace,
            fetch=PayloadFetcher(self._ledger, store, self._contact),
            on_end=self._ended,
            on_stuck=self._stuck,
        )
        lease = Lease(settings.fence_after)
        clock = DatabaseClock()
        self._claimer = Claimer(
            flow=self._flow,
            fair=settings.fair,
            actors=actors,
            ledger=self._ledger,
            lease=lease,
            clock=clock,
            lines=self._lines,
            outcomes=self._outcomes,
            registrar=Registrar(
                settings=settings,
                actors=list(actors),
                slots=slots,
                ledger=self._ledger,
                lease=lease,
                clock=clock,
                store=store,
            ),
            store=store,
            contact=self._contact,
            start=self._executor.start,
            on_gone=self._gone,
        )
        watchdog = Watchdog(
            self._ledger,
            warn_after=settings.heartbeat_every.total_seconds(),
            stall_limit=settings.stall_limit.total_seconds(),
            end=end,
        )
        self._heartbeats = Heartbeats(
            settings=settings,
            port=store.heartbeats(),
            ledger=self._ledger,
            lease=lease,
            clock=clock,
            contact=self._contact,
            events=self,
            watchdog=watchdog,
            end=end,
        )
        self._vitals = Vitals(
            self._ledger, self._flow, self._lines, watchdog, is_drained=lambda: self._claimer.is_drained
        )
        self.health = _health_server(settings, self._vitals)
        self._rescuer = Rescuer(
            self._ledger,
            store,
            self._contact,
            self._lines,
            lease=settings.lease,
            maintenance=settings.maintenance,
            on_call=self._claimer.skip_poll,
            wake=self._waker.wake,
        )
        self._hearing = Hearing(listener, self._contact, opened=self._claimer.missed, heard=self._heard)
        self._stopping = False
        self._cut = False
        self._abandoned = False
        self._exit = WorkerExit.CLEAN
        self._timers: list[asyncio.TimerHandle] = []
        self._claiming: asyncio.Task[None] | None = None

    @property
    def counts(self) -> Counts:
        """What happened in this process so far: a copy."""
        return replace(self._ledger.counts)

    @property
    def flow(self) -> Flow:
        """What it may take in and run."""
        return self._flow

    def pause(self) -> None:
        """Take nothing in until `resume`; what is held goes on, and backpressure is a reason apart."""
        log.info("intake is paused by hand")
        self._flow.pause()

    def resume(self) -> None:
        """End `pause`; backpressure stays as it is."""
        log.info("intake is resumed by hand")
        self._flow.resume()

    async def run(self) -> int:
        """Run jobs until `stop` or a signal, then drain; return the exit code (``WorkerExit``).

        The database being away is no error: the worker waits for it. Cancelling this call gives running jobs back.
        """
        if self.health is not None:
            self.health.open()
        claiming = self._claiming = asyncio.create_task(self._claimer.run())
        claiming.add_done_callback(self._claiming_ended)
        chores = [
            asyncio.create_task(self._rescuer.run(), name="chores"),
            asyncio.create_task(self._hearing.run(), name="notifications"),
        ]
        for chore in chores:
            chore.add_done_callback(self._chore_ended)
        self._heartbeats.start()
        with stopping_signals(self.stop, wanted=self._settings.signals):
            try:
                await asyncio.wait({claiming})
            except asyncio.CancelledError:
                self.stop()
                self.stop()
                await asyncio.wait({claiming})
                raise
            finally:
                await self._finish(chores)
        if not claiming.cancelled():
            claiming.result()
        elif self._ledger.held and self._exit is WorkerExit.CLEAN:
            self._exit = WorkerExit.CUT_SHORT
        log.info("worker stopped", extra={"exit_code": int(self._exit), **asdict(self._ledger.counts)})
        if self._abandoned:
            # Code of a job that was given back still runs in a thread: it ends with the process.
            self._end(self._exit)
        return self._exit

    def stop(self) -> None:
        """Stop claiming and drain within the grace period; called again, give running jobs back at once."""
        if self._stopping:
            self._cut_short()
            return
        self._stopping = True
        log.info("stopping", extra={"running": sum(held.started for held in self._ledger.active)})
        self._claimer.stop()
        self._executor.give_back_unstarted()
        self._later(self._settings.grace.total_seconds(), self._cut_short)
        if self._ledger.registered_as is None and self._claiming is not None:
            # Nothing is held yet, so nothing is worth waiting for a database that may never answer.
            self._later(LAST_CALLS, self._claiming.cancel)

    def beaten(self, snapshot: Snapshot, reply: HeartbeatReply) -> None:
        """Apply a heartbeat's reply: see ``HeartbeatEvents``."""
        cancelled, missing = set(reply.cancelled), set(reply.missing)
        if cancelled or missing:
            # Only what the database was asked about: a job may be ours again under a newer claim.
            for held in snapshot.held:
                if held in self._ledger.active and held.job in missing:
                    self._ledger.held.discard(held)
                    self._executor.stop(held, Stop.LOST)
                elif held in self._ledger.active and held.job in cancelled:
                    self._executor.stop(held, Stop.CANCELLED)
        if reply.returned:
            log.warning("jobs of claims whose reply was lost went back", extra={"jobs": reply.returned})
            self._waker.wake(reply.wake)
        if reply.draining and not self._stopping:
            self._drain()
        self._claimer.renewed()

    def _drain(self) -> None:
        """Somebody marked this worker in the database, and looks at its readiness, if it has any, to see it empty."""
        if self.health is None:
            log.info("asked to drain")
            self.stop()
        elif self._claimer.drain():
            log.info("asked to drain, not ready from when nothing is held")
            self._executor.give_back_unstarted()

    def rescued(self, worker: UUID) -> None:
        """Stop everything and go on under a new identity: see ``HeartbeatEvents``."""
        if worker == self._ledger.registered_as:
            self._gone()

    def fenced(self) -> None:
        """Stop running jobs; they go back unspent when the database answers: see ``HeartbeatEvents``."""
        for held in list(self._ledger.active):
            self._executor.stop(held, Stop.GIVE_BACK)

    def _gone(self) -> None:
        if not self._claimer.lose():
            return
        log.warning("this worker was held for dead, it goes on under a new identity")
        for held in list(self._ledger.active):
            self._executor.stop(held, Stop.LOST)
        if self._ledger.has_unstoppable():
            log.critical("a job went on past a rescue, the process ends")
            self._end(WorkerExit.STALLED)

    def _ended(self, held: Held) -> None:
        if held.fate is None:
            self._ledger.held.discard(held)
        self._claimer.ended(held)

    def _room(self, queue: str) -> None:
        self._claimer.room(queue)

    def _give_back_waiting(self, keep: ReceivedMessageT | None) -> None:
        self._executor.give_back_waiting(keep)

    def _listen(self, wanted: bool) -> None:
        self._hearing.want(wanted)

    def _policy_failed(self) -> None:
        self._exit = WorkerExit.FAILED
        if not self._stopping:
            self.stop()

    def _heard(self, payload: str) -> None:
        if payload.startswith(_CANCEL):
            if payload == f"{_CANCEL}{self._ledger.worker}":
                self._heartbeats.poke()
        else:
            self._claimer.heard(payload)

    def _stuck(self, held: Held) -> None:
        log.critical(
            "a job did not stop after its timeout, the process ends",
            extra={"job": held.job, "actor": held.actor.name},
        )
        self._exit = WorkerExit.STALLED
        if not self._stopping:
            self.stop()

    def _cut_short(self) -> None:
        """Stop waiting: coroutines are cancelled, threads cannot be, and all go back."""
        if self._cut:
            return
        self._cut = True
        for held in list(self._ledger.active):
            if self._exit is WorkerExit.CLEAN:
                self._exit = WorkerExit.CUT_SHORT
            self._executor.stop(held, Stop.GIVE_BACK)
            if held.task is None:
                self._abandoned = True
                self._executor.abandon(held)
        self._later(UNWIND, self._give_up)
        self._claimer.hurry()

    def _give_up(self) -> None:
        for held in list(self._ledger.active):
            self._abandoned = True
            self._executor.abandon(held)
        if self._claiming is not None:
            self._later(LAST_CALLS, self._claiming.cancel)

    def _later(self, seconds: float, call: object) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(seconds, call))  # type: ignore[arg-type]

    def _claiming_ended(self, claiming: asyncio.Task[None]) -> None:
        if not claiming.cancelled() and (error := claiming.exception()) is not None:
            self._vitals.died("claims", error)

    def _chore_ended(self, chore: asyncio.Task[None]) -> None:
        if not chore.cancelled() and (error := chore.exception()) is not None:
            log.critical("a loop of the worker failed, it stops", exc_info=error)
            self._vitals.died(chore.get_name(), error)
            self._exit = WorkerExit.FAILED
            if not self._stopping:
                self.stop()

    async def _finish(self, chores: list[asyncio.Task[None]]) -> None:
        for timer in self._timers:
            timer.cancel()
        for chore in chores:
            chore.cancel()
        await asyncio.wait(chores)
        self._executor.close()
        await self._settle_leases()
        await self._waker.finish(LAST_CALLS)
        # A heartbeat after the goodbye would learn that this worker is not alive.
        await self._heartbeats.stop(LAST_CALLS)
        if self._ledger.registered_as is not None:
            try:
                async with asyncio.timeout(LAST_CALLS):
                    await self._store.leave(self._ledger.worker)
            except (DatabaseError, WorkerGone, TimeoutError):
                log.warning("could not take leave; what this worker still held is rescued when its lease ends")
        await self._store.close()
        if self.health is not None:
            await asyncio.to_thread(self.health.close)

    async def _settle_leases(self) -> None:
        try:
            async with asyncio.timeout(LAST_CALLS):
                await self._flow.execution.settle()
        except TimeoutError:
            log.critical("leases of limit policies could not be released", extra={"seconds": LAST_CALLS})
            self._exit = WorkerExit.FAILED


def _health_server(settings: WorkerSettings, vitals: Vitals) -> "HealthServer | None":
    if settings.health_address is None:
        return None
    # A worker without it spares the import, a tenth of a second.
    from tidegate.runtime.health import HealthServer  # noqa: PLC0415

    return HealthServer(parse_address(settings.health_address, "health_address"), vitals)
