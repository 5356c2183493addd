"""Heartbeats: a thread with an event loop and a connection of its own, so that a busy main loop loses no lease.

The same thread watches the main loop, which it must not outlive: a process that is deadlocked would otherwise keep its
jobs, and the places they take in their limits, for ever.
"""

import asyncio
import logging
import threading
from contextlib import suppress
from typing import Protocol
from uuid import UUID

from tidegate.errors import DatabaseError
from tidegate.ports import HeartbeatPort, HeartbeatReply, WorkerGone
from tidegate.runtime.backoffs import Backoff
from tidegate.runtime.bells import Bell
from tidegate.runtime.clocks import DatabaseClock, now
from tidegate.runtime.contacts import Contact
from tidegate.runtime.endings import EndProcess, WorkerExit
from tidegate.runtime.leases import Lease
from tidegate.runtime.ledgers import Ledger, Snapshot
from tidegate.runtime.settings import WorkerSettings
from tidegate.runtime.watchdogs import Watchdog

log = logging.getLogger("tidegate.worker")


class HeartbeatEvents(Protocol):
    """What heartbeats lead to; every method is called on the main loop."""

    def beaten(self, snapshot: Snapshot, reply: HeartbeatReply) -> None:
        """Apply the database's view of what was held when the heartbeat was sent."""

    def rescued(self, worker: UUID) -> None:
        """The database holds this identity for dead."""

    def fenced(self) -> None:
        """No heartbeat was answered for so long that every running job must stop."""


class Heartbeats:
    """Renews the lease and watches over it.

    Args:
        settings: spans between heartbeats, to the self-fence and to a stall.
        port: the thread's own connection.
        ledger: what to compare.
        lease: renewed by each good heartbeat.
        clock: learns the database's time.
        contact: told of failures.
        events: told of everything else, on the main loop.
        watchdog: of the main loop.
        end: ends the process.
    """

    def __init__(
        self,
        *,
        settings: WorkerSettings,
        port: HeartbeatPort,
        ledger: Ledger,
        lease: Lease,
        clock: DatabaseClock,
        contact: Contact,
        events: HeartbeatEvents,
        watchdog: Watchdog,
        end: EndProcess,
    ) -> None:
        self._every = settings.heartbeat_every.total_seconds()
        self._last_chance = (settings.lease - settings.fence_after).total_seconds() * 0.8
        self._port = port
        self._ledger = ledger
        self._lease = lease
        self._clock = clock
        self._contact = contact
        self._events = events
        self._watchdog = watchdog
        self._end = end
        self._bell = Bell()
        self._backoff = Backoff(first=self._every / 20, longest=self._every)
        self._broken = False
        self._fenced_at: float | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Future[None] | None = None
        self._stopping = False

    def start(self) -> None:
        """Start the thread; the running loop is the main one from here on."""
        self._watchdog.attach()
        self._stopped = asyncio.get_running_loop().create_future()
        threading.Thread(target=self._serve, name="tidegate heartbeats", daemon=True).start()

    def poke(self) -> None:
        """Send a heartbeat now rather than at its time; from the main loop."""
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._bell.ring)

    async def stop(self, seconds: float) -> None:
        """End the thread and its connection; wait at most so long."""
        self._stopping = True
        self.poke()
        if self._stopped is not None:
            await asyncio.wait({self._stopped}, timeout=seconds)

    def _serve(self) -> None:
        try:
            asyncio.run(self._run())
        except Exception:
            # Without heartbeats the jobs are taken away from under a worker that believes in its lease.
            log.critical("the heartbeat thread failed, the process ends", exc_info=True)
            self._end(WorkerExit.FAILED)
        self._watchdog.tell(self._set_stopped)

    def _set_stopped(self) -> None:
        if self._stopped is not None and not self._stopped.done():
            self._stopped.set_result(None)

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        watch = asyncio.create_task(self._watch())
        try:
            while not self._stopping:
                worker = self._ledger.registered_as
                await self._bell.wait(self._every / 10 if worker is None else await self._beat(worker))
                if watch.done():
                    watch.result()
        finally:
            watch.cancel()
            await self._port.close()

    async def _beat(self, worker: UUID) -> float:
        """Send one heartbeat; return the seconds until the next."""
        snapshot = self._ledger.snapshot(worker)
        jobs = [held.job for held in snapshot.held]
        claims = [held.claim for held in snapshot.held]
        started = now()
        unbroken = not self._broken and self._lease.is_good()
        try:
            reply = await self._port.heartbeat(snapshot.worker, jobs, claims, snapshot.next_claim, unbroken=unbroken)
        except WorkerGone:
            self._watchdog.tell(self._events.rescued, snapshot.worker)
            return self._every
        except DatabaseError as error:
            self._broken = True
            self._contact.failed("heartbeats", error)
            return self._backoff.next()
        self._broken = False
        self._backoff.reset()
        self._contact.well("heartbeats")
        if reply.alive:
            self._clock.observe(reply.seen_at, started, now())
            self._lease.renew(started)
            self._watchdog.tell(self._events.beaten, snapshot, reply)
        else:
            self._watchdog.tell(self._events.rescued, snapshot.worker)
        return max(0.0, started + self._every - now())

    async def _watch(self) -> None:
        tick = min(self._every / 5, 0.5)
        while True:
            before = now()
            await asyncio.sleep(tick)
            self._watch_lease()
            # A frozen process or a suspended machine is no stall: what counts is time in which this thread ran too.
            self._watchdog.look(min(now() - before, 2 * tick))

    def _watch_lease(self) -> None:
        if self._lease.is_good() or self._ledger.registered_as is None:
            self._fenced_at = None
            return
        if self._fenced_at is None:
            self._fenced_at = now()
            if self._ledger.active:
                log.warning("no heartbeat was answered in time, running jobs stop", extra=self._watchdog.running())
            self._watchdog.tell(self._events.fenced)
        late = now() - self._fenced_at > self._last_chance and bool(self._ledger.active)
        if late or self._ledger.has_unstoppable():
            log.critical("a job went on past the self-fence, the process ends", extra=self._watchdog.running())
            self._end(WorkerExit.STALLED)
