"""The one reconciler: level-triggered, in passes, as long as this process leads.

A pass compares what objects ask with what the database holds. It begins when something was seen, when a notification
came, or when a tick is due: live numbers every 2 s, every row every 60 s, full lists every 10 min and at once when a
watch began anew. A pass that fails is made again with backoff; nothing is deleted or scaled on what was not read.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from tidegate.errors import ConfigurationError, DatabaseError, DatabaseUnavailable
from tidegate.model.demands import QueueNumbers
from tidegate.store.operators import OperatorStore
from tidegate_operator.caches import ObjectCache
from tidegate_operator.conditions import Reason
from tidegate_operator.config import Config
from tidegate_operator.databases import Database
from tidegate_operator.errors import ClusterError
from tidegate_operator.keepers import Keeper, ObjectsT
from tidegate_operator.metrics import Metrics
from tidegate_operator.notifications import Doorman
from tidegate_operator.publishers import Publisher
from tidegate_operator.reconcile.ticks import Ticks
from tidegate_operator.resources import Kind
from tidegate_operator.scalers import Scaler

logger = logging.getLogger(__name__)

DEBOUNCE: Final = 0.05
"""Seconds between the first thing seen and the pass: what is applied together is written together."""

SAY_AFTER: Final = 5.0
"""Seconds for which the database may fail before the objects' conditions say so."""

AGAIN_AFTER: Final = 1.0
"""Seconds until a row that somebody held is tried again."""

REFUSALS: Final = 3
"""Refusals of the database in a row after which the schema is looked at again."""

FIRST_BACKOFF: Final = 0.5
CANCEL: Final = "cancel:"
"""How notifications begin that are meant for one worker."""

MAX_BACKOFF: Final = 15.0
"""Seconds: bounds of the wait after a failed pass, which doubles, with jitter."""


class Reconciler:
    """Passes over everything, one at a time."""

    def __init__(
        self,
        cache: ObjectCache,
        objects: ObjectsT,
        database: Database,
        *,
        keepers: Sequence[Keeper],
        publisher: Publisher,
        doorman: Doorman,
        scaler: Scaler,
        config: Config,
        metrics: Metrics,
    ) -> None:
        self._cache, self._objects, self._database = cache, objects, database
        self._keepers, self._publisher, self._doorman = keepers, publisher, doorman
        self._scaler, self._config, self._metrics = scaler, config, metrics
        self._ticks = Ticks(config.numbers_every, config.drift_every, config.list_every)
        self._epoch: int | None = None
        self._store: OperatorStore | None = None
        self._failures = 0
        self._failing_since: float | None = None
        self._again: dict[tuple[Kind, str], float] = {}
        self._listed: set[tuple[Kind, str | None]] = set()
        self.beat = time.monotonic()

    async def run(self) -> None:
        """Reconcile until cancelled.

        Raises:
            OfficeLost: another operator took office for this cluster id.
        """
        while True:
            self.beat = time.monotonic()
            with self._metrics.passes.time():
                await self._try_pass()
            self.beat = time.monotonic()
            await self._rest()

    async def _try_pass(self) -> None:
        try:
            await self._pass()
        except ClusterError as error:
            self._failed("cluster", error)
        except (DatabaseError, ConfigurationError) as error:
            self._failed("database", error)
            self._metrics.database_up.set(0)
            self._say_failure(error)
            if self._failures % REFUSALS == 0 and not isinstance(error, DatabaseUnavailable):
                # the schema may be gone or another release's: it is looked at again on taking office
                self._epoch = None
        else:
            if self._failures:
                logger.info("passes succeed again", extra={"failed": self._failures})
            self._failures, self._failing_since = 0, None
            self._metrics.database_up.set(1)

    async def _pass(self) -> None:
        now = time.monotonic()
        if self._cache.relisted:
            self._cache.relisted = False
            self._ticks.list_soon(now)
        if self._ticks.list_is_due(now):
            await self._list(now)
        store = await self._take_office()
        everything = self._ticks.drift_is_due(now)
        await self._keep_rows(store, self._dirty(now), everything=everything)
        if everything:
            self._ticks.drift_done(now)
        if everything or self._ticks.numbers_are_due(now):
            await self._numbers(store)
            self._ticks.numbers_done(now)

    async def _numbers(self, store: OperatorStore) -> None:
        await self._publisher.publish(store, Kind.LIMIT)
        queues = await self._publisher.publish(store, Kind.QUEUE)
        numbers = {name: each for name, each in queues.items() if isinstance(each, QueueNumbers)}
        # registered first and looked at once more, so that what came in between is not missed
        if await self._doorman.watch(name for name, each in numbers.items() if not each.workers):
            numbers = await store.queue_numbers(sorted(numbers))
        await self._scaler.scale(store, self._epoch or 0, self._publisher.owners(Kind.QUEUE), numbers)
        self._publisher.take({}, self._scaler.notices)
        if self._scaler.shown != self._publisher.scaling:
            self._publisher.scaling = self._scaler.shown
            await self._publisher.publish(store, Kind.QUEUE)

    def hear(self, queue: str) -> None:
        """Look at the numbers soon: a queue that nobody serves has news."""
        if queue.startswith(CANCEL):
            return
        self._ticks.numbers_soon(time.monotonic())
        self._cache.woken.set()

    def _dirty(self, now: float) -> dict[Kind, set[str]]:
        dirty = self._cache.take_dirty()
        for kind, row in [each for each, at in self._again.items() if at <= now]:
            del self._again[kind, row]
            dirty[kind].add(row)
        return dirty

    async def _keep_rows(self, store: OperatorStore, dirty: dict[Kind, set[str]], *, everything: bool) -> None:
        try:
            for keeper in self._keepers:
                if everything or dirty[keeper.kind]:
                    await self._keep(store, keeper, None if everything else dirty[keeper.kind])
                    dirty[keeper.kind] = set()
        except BaseException:
            for kind, rows in dirty.items():
                self._cache.mark(kind, rows)
            raise

    async def _keep(self, store: OperatorStore, keeper: Keeper, rows: set[str] | None) -> None:
        kept = await keeper.keep(store, self._epoch or 0, rows)
        self._publisher.take(kept.verdicts, kept.notices)
        now = time.monotonic()
        for row in kept.again:
            self._again[keeper.kind, row] = now + AGAIN_AFTER
        if kept.orphans:
            clock = await store.clock()
            for row, ends_at in kept.orphans.items():
                self._again[keeper.kind, row] = now + max(0.0, (ends_at - clock).total_seconds()) + DEBOUNCE
        if rows is not None:
            await self._publisher.publish(store, keeper.kind, rows)

    async def _list(self, now: float) -> None:
        """List everything, each namespace apart: one that cannot be listed keeps what the watch has told of it.

        Raises:
            ClusterError: nothing was ever listed there, so nothing may be decided yet.
        """
        for namespace in (*self._config.namespaces,) or (None,):
            for kind in Kind:
                mark = self._cache.begin_list()
                try:
                    listed = await self._objects.list(kind, namespace)
                except ClusterError as error:
                    if (kind, namespace) not in self._listed:
                        raise
                    self._metrics.failures.labels("listing").inc()
                    logger.warning("a list failed and is made again", extra={"error": str(error)})
                    self._cache.relisted = True
                else:
                    self._listed.add((kind, namespace))
                    self._cache.replace(kind, listed, mark, namespace)
        self._metrics.lists.inc()
        self._ticks.list_done(now)

    async def _take_office(self) -> OperatorStore:
        store = await self._database.store()
        if self._epoch is None or store is not self._store:
            if self._epoch is None:
                await self._database.prepare(migrating=self._config.migrate)
                self._epoch = await store.take_office(self._config.identity)
                logger.info("took office", extra={"epoch": self._epoch, "cluster": store.cluster})
            self._store = store
        return store

    def _failed(self, what: str, error: Exception) -> None:
        self._metrics.failures.labels(what).inc()
        self._failures += 1
        if self._failing_since is None:
            self._failing_since = time.monotonic()
            logger.warning("a pass failed and is made again", extra={"error": str(error)})

    def _say_failure(self, error: Exception) -> None:
        since = self._failing_since
        if since is None or time.monotonic() - since < SAY_AFTER:
            return
        if isinstance(error, DatabaseUnavailable):
            self._publisher.fail(Reason.DATABASE_UNAVAILABLE, _UNAVAILABLE)
        else:
            self._publisher.fail(Reason.DATABASE_REFUSED, _REFUSED)

    async def _rest(self) -> None:
        now = time.monotonic()
        if self._failures:
            longest = min(MAX_BACKOFF, FIRST_BACKOFF * 2 ** min(self._failures, 10))
            await asyncio.sleep(random.uniform(longest / 2, longest))  # noqa: S311 - jitter, not a secret
            return
        until = min([self._ticks.next(), *self._again.values()])
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, until - now)):
                await self._cache.woken.wait()
                await asyncio.sleep(DEBOUNCE)
        self._cache.woken.clear()


_UNAVAILABLE = "Postgres does not answer; what it holds stays in force, and the operator goes on trying"
_REFUSED = "Postgres refuses what the operator asks; its log says why"
