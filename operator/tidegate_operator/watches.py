"""The watch of every namespace apart: one that is deleted, or that may not be read, is named and stops no other.

kopf ends for good what it was refused for two minutes, and says nothing until then. So each namespace has a watch of
its own, which is ended and begun anew. Of the whole cluster there is one; what it may not read ends the process, as at
the start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

from tidegate.errors import ConfigurationError
from tidegate_operator.caches import ObjectCache
from tidegate_operator.cluster.preflight import ReachT
from tidegate_operator.errors import ClusterRefused, ClusterUnavailable
from tidegate_operator.metrics import Metrics
from tidegate_operator.outages import Outages
from tidegate_operator.resources import Kind

logger = logging.getLogger(__name__)

RETRY: Final = 2.0
"""Seconds until a watch that ended begins anew."""

REFUSED_RETRY: Final = 15.0
"""Seconds until a namespace is tried again that may not be read."""


CHECK_EVERY: Final = 60.0
"""Seconds between two looks whether a namespace that is watched may still be read."""

FEED_END: Final = 5.0
"""Seconds that a watch gets to end."""

FeedT = Callable[[str | None, asyncio.Event, Callable[[], None]], Coroutine[Any, Any, None]]
"""Watches a namespace until an event is set, or until something ends it; calls the third once it has begun."""


class Watches:
    """Feeds a cache for as long as the process runs.

    Args:
        cache: what is fed.
        objects: the API server.
        feed: one watch.
        namespaces: those to watch; none for the whole cluster.
        metrics: where it is shown which may not be read.
        started: called after each beginning of a watch.
    """

    def __init__(
        self,
        cache: ObjectCache,
        objects: ReachT,
        feed: FeedT,
        *,
        namespaces: Sequence[str],
        metrics: Metrics,
        started: Callable[[], None],
    ) -> None:
        self._cache, self._objects, self._feed = cache, objects, feed
        self._metrics, self._started = metrics, started
        self._outages = Outages(logger, metrics)
        self._scopes: tuple[str | None, ...] = (*namespaces,) or (None,)
        self._watched: set[str | None] = set()
        self._refused: set[str | None] = set()

    @property
    def problem(self) -> str | None:
        """Why nothing is watched at all; None while something is."""
        if self._watched:
            return None
        if len(self._refused) == len(self._scopes):
            return f"none of the namespaces may be read: {', '.join(sorted(str(each) for each in self._refused))}"
        return "the watch has not begun"

    async def run(self, stop: asyncio.Event) -> None:
        """Watch until ``stop`` is set.

        Raises:
            ConfigurationError: something is missing that only a person can add.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for scope in self._scopes:
                    group.create_task(self._keep(scope, stop), name=f"watching {scope or 'the whole cluster'}")
        except* ConfigurationError as ended:
            raise ended.exceptions[0] from None

    async def _keep(self, scope: str | None, stop: asyncio.Event) -> None:
        about = scope or "the whole cluster"
        again = False
        while not stop.is_set():
            pause = RETRY
            try:
                await self._check(scope)
                self._note(scope, refused=False)
                if again:
                    # what was deleted meanwhile, nobody tells
                    self._cache.relist()
                again = True
                await self._watch(scope, stop)
            except ClusterRefused as error:
                if scope is None:
                    raise ConfigurationError(f"the objects of the cluster may not be read any more: {error}") from error
                self._note(scope, refused=True)
                self._outages.failed("watching", error, about)
                pause = REFUSED_RETRY
            except ClusterUnavailable as error:
                self._outages.failed("watching", error, about)
            except ConfigurationError:
                raise
            except Exception as error:  # noqa: BLE001 - kopf hands on whatever its client raised
                self._outages.failed("watching", error, about)
            finally:
                self._watched.discard(scope)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await stop.wait()

    async def _watch(self, scope: str | None, stop: asyncio.Event) -> None:
        """Watch until ``stop`` is set, until the watch ends, or until what it watches may not be read any more."""
        end = asyncio.Event()
        feeding = asyncio.create_task(self._feed(scope, end, lambda: self._begun(scope)))
        stopping = asyncio.create_task(stop.wait())
        try:
            while not (
                await asyncio.wait({feeding, stopping}, timeout=CHECK_EVERY, return_when=asyncio.FIRST_COMPLETED)
            )[0]:
                # an API server that is away is the watch's own to bear
                with suppress(ClusterUnavailable):
                    await self._check(scope)
        finally:
            end.set()
            stopping.cancel()
            await asyncio.wait({feeding}, timeout=FEED_END)
            feeding.cancel()
            await asyncio.wait({feeding, stopping})
        await feeding

    async def _check(self, scope: str | None) -> None:
        served = await self._objects.served()
        missing = sorted(kind.plural for kind in Kind if kind.plural not in served)
        if missing:
            raise ConfigurationError(
                f"the API server does not serve {', '.join(missing)} any more; apply crds/, or install the chart with"
                " crds.install=true"
            )
        for kind in Kind:
            await self._objects.reach(kind, scope)

    def _begun(self, scope: str | None) -> None:
        self._watched.add(scope)
        self._outages.over("watching", scope or "the whole cluster")
        self._started()

    def _note(self, scope: str | None, *, refused: bool) -> None:
        (self._refused.add if refused else self._refused.discard)(scope)
        if scope is not None:
            self._metrics.unwatched.labels(scope).set(int(refused))
