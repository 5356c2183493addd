"""The writer of statuses and Events: within its budget, the newest alone, and nothing twice."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tidegate_operator.beats import REST, Beats
from tidegate_operator.caches import ObjectCache
from tidegate_operator.errors import ClusterError, ClusterRefused, ClusterUnavailable
from tidegate_operator.metrics import Metrics
from tidegate_operator.outages import Outages
from tidegate_operator.reconcile.budgets import TokenBucket, WriteQueue
from tidegate_operator.reconcile.statuses import is_changed, is_transition, merge_patch
from tidegate_operator.resources import Identity, Kind

logger = logging.getLogger(__name__)

AT_ONCE: Final = 8
"""Status writes under way at one time."""

EVENTS_A_SECOND: Final = 10.0
MAX_EVENTS: Final = 1_000
"""Events that wait at most; the oldest is dropped, since the status says what holds."""

PAUSE: Final = 2.0
"""Seconds until a status is offered again that was not written; they double for the same object."""

LONGEST_PAUSE: Final = 10.0
"""Seconds at most where the API server did not answer, and six times that where it refused."""

LOOPS: Final = ("status writes", "Events")

_GONE = 404
_NEVER = 422


class StatusesT(Protocol):
    """Where statuses go."""

    async def patch_status(self, identity: Identity, patch: Mapping[str, Any]) -> Mapping[str, Any]:
        """Merge into a status and return the object."""


class EventsT(Protocol):
    """Where Events go."""

    async def create(self, identity: Identity, reason: str, message: str, *, warning: bool) -> None:
        """Create one."""


@dataclass(frozen=True)
class PendingEvent:
    """An Event that waits."""

    identity: Identity
    reason: str
    message: str
    warning: bool


class Writer:
    """Writes what the reconciler hands over, in a task of its own, as long as this process leads."""

    def __init__(
        self, cache: ObjectCache, statuses: StatusesT, events: EventsT, *, metrics: Metrics, beats: Beats
    ) -> None:
        self._cache, self._statuses, self._events = cache, statuses, events
        self._metrics, self._beats = metrics, beats
        self._outages = Outages(logger, metrics)
        self._tries: dict[str, int] = {}
        self._queue: WriteQueue[tuple[Identity, Mapping[str, Any]]] = WriteQueue()
        self._pending: deque[PendingEvent] = deque(maxlen=MAX_EVENTS)
        self._event_budget = TokenBucket(EVENTS_A_SECOND)
        self._statuses_wake, self._events_wake = asyncio.Event(), asyncio.Event()

    def offer(self, identity: Identity, status: Mapping[str, Any]) -> None:
        """Hand over what an object's status should be, whole; what it is already is not written."""
        known = self._cache.get(identity.uid)
        if known is None:
            self._queue.forget(identity.uid)
        elif not is_changed(known.status, status):
            self._queue.withdraw(identity.uid)
        else:
            self._queue.offer(identity.uid, (identity, status), urgent=is_transition(known.status, status))
            self._statuses_wake.set()

    def tell(self, identity: Identity, reason: str, message: str, *, warning: bool = False) -> None:
        """Hand over an Event."""
        if len(self._pending) == MAX_EVENTS:
            self._metrics.events.labels("dropped").inc()
        self._pending.append(PendingEvent(identity, reason, message, warning))
        self._events_wake.set()

    async def run(self) -> None:
        """Write until cancelled."""
        slots = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write_events())
            while True:
                self._beats.beat(LOOPS[0])
                item = self._queue.take(time.monotonic())
                if item is None:
                    await self._idle(self._statuses_wake, self._queue.wait(time.monotonic()))
                    continue
                await slots.acquire()
                group.create_task(self._write_in_turn(*item, slots))

    async def _write_in_turn(self, identity: Identity, status: Mapping[str, Any], slots: asyncio.Semaphore) -> None:
        try:
            pause = await self._write(identity, status)
        finally:
            slots.release()
        if pause is None:
            self._tries.pop(identity.uid, None)
            return
        # without a slot: what is refused in one namespace takes no turn of another's
        await asyncio.sleep(pause)
        # the newest may have been handed over meanwhile
        if not self._queue.holds(identity.uid):
            self.offer(identity, status)

    async def _write(self, identity: Identity, status: Mapping[str, Any]) -> float | None:
        """Write a status; return seconds until it is to be offered again, None where that is not needed."""
        known = self._cache.get(identity.uid)
        if known is None or not is_changed(known.status, status):
            return None
        try:
            found = await self._statuses.patch_status(identity, merge_patch(known.status, status))
        except ClusterUnavailable as error:
            self._metrics.statuses.labels("unavailable").inc()
            self._outages.failed("status writes", error)
            return self._pause(identity, LONGEST_PAUSE)
        except ClusterRefused as error:
            self._metrics.statuses.labels("refused").inc()
            if error.status == _GONE:
                return None
            self._outages.failed("status writes", error, identity.namespace)
            # but for what no server would take: rights that come late, or somebody else's write in between
            return None if error.status == _NEVER else self._pause(identity, 6 * LONGEST_PAUSE)
        else:
            self._metrics.statuses.labels("written").inc()
            self._outages.over("status writes")
            self._outages.over("status writes", identity.namespace)
            # an object of the same name may be another one by now
            if found["metadata"]["uid"] == identity.uid:
                self._cache.see(Kind(identity.kind), found)
            return None

    def _pause(self, identity: Identity, longest: float) -> float:
        tries = self._tries.get(identity.uid, 0)
        self._tries[identity.uid] = tries + 1
        return min(longest, PAUSE * float(2 ** min(tries, 10)))

    async def _write_events(self) -> None:
        while True:
            self._beats.beat(LOOPS[1])
            now = time.monotonic()
            if not self._pending or self._event_budget.wait(now) > 0:
                await self._idle(self._events_wake, self._event_budget.wait(now) if self._pending else None)
                continue
            self._event_budget.take(now)
            event = self._pending.popleft()
            try:
                await self._events.create(event.identity, event.reason, event.message, warning=event.warning)
                self._metrics.events.labels("created").inc()
            except ClusterError as error:
                # an Event is a courtesy: the status says what holds, and is tried again
                self._metrics.events.labels("failed").inc()
                self._outages.failed("Events", error, event.identity.namespace)
            else:
                self._outages.over("Events", event.identity.namespace)

    @staticmethod
    async def _idle(wake: asyncio.Event, seconds: float | None) -> None:
        wake.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(REST if seconds is None else seconds):
                await wake.wait()
