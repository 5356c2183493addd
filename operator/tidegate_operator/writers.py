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

from tidegate_operator.caches import ObjectCache
from tidegate_operator.errors import ClusterError, ClusterRefused, ClusterUnavailable
from tidegate_operator.metrics import Metrics
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
"""Seconds without a try after the API server did not answer."""

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

    def __init__(self, cache: ObjectCache, statuses: StatusesT, events: EventsT, metrics: Metrics) -> None:
        self._cache, self._statuses, self._events, self._metrics = cache, statuses, events, metrics
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
                item = self._queue.take(time.monotonic())
                if item is None:
                    await self._idle(self._statuses_wake, self._queue.wait(time.monotonic()))
                    continue
                await slots.acquire()
                writing = group.create_task(self._write(*item))
                writing.add_done_callback(lambda _: slots.release())

    async def _write(self, identity: Identity, status: Mapping[str, Any]) -> None:
        known = self._cache.get(identity.uid)
        if known is None or not is_changed(known.status, status):
            return
        try:
            found = await self._statuses.patch_status(identity, merge_patch(known.status, status))
        except ClusterUnavailable as error:
            self._metrics.statuses.labels("unavailable").inc()
            logger.debug("a status was not written", extra={"error": str(error)})
            await self._offer_again(identity, status)
        except ClusterRefused as error:
            self._metrics.statuses.labels("refused").inc()
            if error.status == _GONE:
                return
            logger.warning("the API server refuses a status", extra={"error": str(error)})
            if error.status != _NEVER:
                # rights that come late, or somebody else's write in between
                await self._offer_again(identity, status)
        else:
            self._metrics.statuses.labels("written").inc()
            # an object of the same name may be another one by now
            if found["metadata"]["uid"] == identity.uid:
                self._cache.see(Kind(identity.kind), found)

    async def _offer_again(self, identity: Identity, status: Mapping[str, Any]) -> None:
        await asyncio.sleep(PAUSE)
        # the newest may have been handed over meanwhile
        if not self._queue.holds(identity.uid):
            self.offer(identity, status)

    async def _write_events(self) -> None:
        while True:
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
                logger.debug("an Event was not created", extra={"error": str(error)})

    @staticmethod
    async def _idle(wake: asyncio.Event, seconds: float | None) -> None:
        wake.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await wake.wait()
