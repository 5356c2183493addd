"""Full lists of objects, of each namespace apart and beside the passes: a slow or forbidden one holds up no other.

A watch may miss a deletion and never say so, so everything is listed every ten minutes, and at once when a watch began
anew. Nothing is decided about a namespace before it was listed once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tidegate_operator.beats import Beats
from tidegate_operator.caches import ObjectCache
from tidegate_operator.errors import ClusterError
from tidegate_operator.keepers import ObjectsT
from tidegate_operator.metrics import Metrics
from tidegate_operator.outages import Outages
from tidegate_operator.resources import Kind

logger = logging.getLogger(__name__)

AT_ONCE: Final = 4
"""Namespaces that are listed at one time."""

RELIST_EVERY: Final = 5.0
"""Least seconds between two full lists: a watch that began anew tells of its objects one by one, for seconds."""

FIRST_RETRY: Final = 1.0
LAST_RETRY: Final = 60.0
"""Seconds until a list that failed is made again: it doubles from the first to the last."""

LOOP: Final = "lists"


@dataclass
class _Scope:
    """A namespace, or with None the whole cluster. Instants are seconds of the monotonic clock."""

    namespace: str | None
    due_at: float = 0.0
    listed_at: float | None = None
    failures: int = 0
    busy: bool = False


class Lister:
    """Keeps the cache complete, as long as this process leads.

    Args:
        cache: what is kept complete.
        objects: the API server.
        namespaces: those to list; none for the whole cluster.
        every: seconds between two lists.
        metrics: where counts go.
        beats: where the loop shows that it turns.
    """

    def __init__(
        self,
        cache: ObjectCache,
        objects: ObjectsT,
        *,
        namespaces: Sequence[str],
        every: float,
        metrics: Metrics,
        beats: Beats,
    ) -> None:
        self._cache, self._objects, self._every = cache, objects, every
        self._metrics, self._beats = metrics, beats
        self._outages = Outages(logger, metrics)
        self._scopes = [_Scope(namespace) for namespace in (*namespaces,) or (None,)]
        self._whole = not namespaces

    @property
    def began(self) -> bool:
        """Something was listed, so that something may be decided."""
        return any(scope.listed_at is not None for scope in self._scopes)

    @property
    def known(self) -> frozenset[str] | None:
        """Namespaces about whose objects may be decided; None for all."""
        if self._whole:
            return None
        return frozenset(each.namespace for each in self._scopes if each.namespace and each.listed_at is not None)

    async def run(self, listed: Callable[[], None]) -> None:
        """List until cancelled; call ``listed`` after each list, whose rows are then to be looked at."""
        slots = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as group:
            while True:
                self._beats.beat(LOOP)
                now = time.monotonic()
                self._cache.list_wanted.clear()
                self._take_wish(now)
                for scope in self._scopes:
                    if not scope.busy and scope.due_at <= now:
                        scope.busy = True
                        group.create_task(self._list(scope, slots, listed))
                until = min((each.due_at for each in self._scopes if not each.busy), default=now + RELIST_EVERY)
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(max(0.0, until - now), RELIST_EVERY)):
                        await self._cache.list_wanted.wait()

    def _take_wish(self, now: float) -> None:
        if not self._cache.relisted:
            return
        self._cache.relisted = False
        for scope in self._scopes:
            if scope.failures == 0:
                earliest = now if scope.listed_at is None else scope.listed_at + RELIST_EVERY
                scope.due_at = min(scope.due_at, max(now, earliest))

    async def _list(self, scope: _Scope, slots: asyncio.Semaphore, listed: Callable[[], None]) -> None:
        about = scope.namespace or "the whole cluster"
        try:
            async with slots:
                began = time.monotonic()
                for kind in Kind:
                    mark = self._cache.begin_list()
                    self._cache.replace(kind, await self._objects.list(kind, scope.namespace), mark, scope.namespace)
        except ClusterError as error:
            scope.failures += 1
            scope.due_at = time.monotonic() + min(LAST_RETRY, FIRST_RETRY * 2 ** min(scope.failures - 1, 10))
            self._outages.failed("listing", error, about)
        else:
            scope.failures, scope.listed_at, scope.due_at = 0, began, began + self._every
            self._outages.over("listing", about)
            self._metrics.lists.inc()
            listed()
        finally:
            scope.busy = False
            self._cache.list_wanted.set()
