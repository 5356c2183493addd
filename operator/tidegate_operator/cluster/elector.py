"""Who leads: a Lease, held so that two leaders never work at once.

The deadline of the leader lies on its own monotonic clock, counts from before the request that renewed the lease and
is shorter than the lease that others wait for. Work is cancelled and awaited before the lease may be another's;
where it does not end, the process does. A standby trusts no clock but its own either: a lease counts as fresh from when
it was seen to change.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import aiohttp
from kubernetes.aio import client

logger = logging.getLogger(__name__)

EXIT_STUCK = 70
"""Exit code of a process whose work outlived its right to work."""

_NOT_FOUND = 404


@dataclass(frozen=True)
class LeaseTimes:
    """Seconds: how long others wait for a silent leader, how long it works without a renewal, time between two tries.

    ``lease - renew`` is the time that work gets to end, so it must be 2 s or more.
    """

    lease: int = 15
    renew: int = 10
    retry: float = 2.0


class Elector:
    """A candidate for one Lease.

    Args:
        api: the client.
        namespace: where the Lease lies.
        name: the Lease's name.
        me: who we are, another one in every process.
        times: see `LeaseTimes`.
    """

    def __init__(self, api: client.ApiClient, namespace: str, name: str, me: str, times: LeaseTimes) -> None:
        self._api = client.CoordinationV1Api(api)
        self._namespace, self._name, self._me, self._times = namespace, name, me, times
        self._seen: str | None = None
        self._seen_at = 0.0
        self._reached = True
        self.leads = False

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, do the work, and return or raise what it raised; on any exit the work has ended before.

        Also ends when the lease could not be renewed in time: the caller then tries again.
        """
        good = time.monotonic()
        while not await self._attempt(self._times.renew):
            await asyncio.sleep(self._times.retry)
            good = time.monotonic()
        self.leads = True
        logger.info("this operator leads now", extra={"holder": self._me})
        task = asyncio.ensure_future(work())
        try:
            await self._renew_while_working(task, good)
        finally:
            await self._end(task)
            self.leads = False
        if task.done() and not task.cancelled():
            await task

    async def _renew_while_working(self, task: asyncio.Future[None], good: float) -> None:
        while not task.done():
            left = good + self._times.renew - time.monotonic()
            if left <= 0:
                logger.warning("the lease could not be renewed in time; this operator leads no more")
                return
            await asyncio.wait([task], timeout=min(self._times.retry, left))
            asked = time.monotonic()
            left = good + self._times.renew - asked
            if not task.done() and left > 0 and await self._attempt(left):
                good = asked

    async def _end(self, task: asyncio.Future[None]) -> None:
        task.cancel()
        await asyncio.wait([task], timeout=self._times.lease - self._times.renew - 1)
        if not task.done():
            logger.critical("the work of the leader cannot be stopped; the process ends before its lease does")
            os._exit(EXIT_STUCK)
        await self._attempt(2, release=True)

    async def _attempt(self, limit: float, *, release: bool = False) -> bool:
        try:
            async with asyncio.timeout(limit):
                held = await self._hold(release=release)
                self._reached = True
                return held
        except (client.ApiException, aiohttp.ClientError, TimeoutError, OSError) as error:
            # once for each outage: a try every two seconds would drown the rest
            level = logging.WARNING if self._reached else logging.DEBUG
            logger.log(level, "the lease was not reached", extra={"error": str(error) or type(error).__name__})
            self._reached = False
            return False

    async def _hold(self, *, release: bool) -> bool:
        now = datetime.now(UTC)
        try:
            held: Any = await self._api.read_namespaced_lease(self._name, self._namespace)
        except client.ApiException as error:
            if error.status != _NOT_FOUND or release:
                return False
            return await self._create(now)
        spec, version = held.spec, held.metadata.resource_version
        if version != self._seen:
            self._seen, self._seen_at = version, time.monotonic()
        fresh = time.monotonic() - self._seen_at < (spec.lease_duration_seconds or self._times.lease)
        if spec.holder_identity not in (None, "", self._me) and (release or fresh):
            return False
        if spec.holder_identity != self._me:
            spec.acquire_time, spec.lease_transitions = now, (spec.lease_transitions or 0) + 1
        spec.renew_time = now
        spec.holder_identity = "" if release else self._me
        spec.lease_duration_seconds = 1 if release else self._times.lease
        # carries the resourceVersion that was read: who lost the race gets a 409
        await self._api.replace_namespaced_lease(self._name, self._namespace, held)
        return True

    async def _create(self, now: datetime) -> bool:
        spec = client.V1LeaseSpec(
            holder_identity=self._me,
            lease_duration_seconds=self._times.lease,
            acquire_time=now,
            renew_time=now,
            lease_transitions=0,
        )
        lease = client.V1Lease(metadata=client.V1ObjectMeta(name=self._name), spec=spec)
        await self._api.create_namespaced_lease(self._namespace, lease)
        return True
