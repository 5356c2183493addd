"""The one reconciler: level-triggered, in passes, as long as this process leads.

A pass compares what objects ask with what the database holds. It begins when something was seen, when a queue that
nobody serves has news, or when a tick is due: live numbers every 2 s, every row every 60 s and after each full list. A
pass asks the API server only about objects whose absence decides something; lists, statuses and Deployments are the
work of loops beside it. A pass that fails is made again with backoff; nothing is deleted on what was not read.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from tidegate.errors import ConfigurationError, DatabaseError, DatabaseUnavailable
from tidegate.model.demands import QueueNumbers
from tidegate.model.limits import LimitStatus
from tidegate.store.operators import OperatorStore
from tidegate_operator.beats import REST, Beats
from tidegate_operator.caches import ObjectCache
from tidegate_operator.conditions import Reason
from tidegate_operator.config import Config
from tidegate_operator.databases import Database
from tidegate_operator.errors import ClusterError
from tidegate_operator.keepers import Keeper
from tidegate_operator.metrics import Metrics
from tidegate_operator.notifications import Doorman, watcher_of
from tidegate_operator.publishers import Publisher
from tidegate_operator.reconcile.ticks import Ticks
from tidegate_operator.resources import Kind
from tidegate_operator.scalers import Scaler

logger = logging.getLogger(__name__)

DEBOUNCE: Final = 0.05
"""Seconds between the first thing seen and the pass: what is applied together is written together."""

SAY_AFTER: Final = 5.0
"""Seconds for which the database may fail before the objects' conditions say so."""

FIRST_AGAIN: Final = 1.0
LAST_AGAIN: Final = 60.0
"""Seconds until a row is tried again of whose owner nothing could be learnt; they double."""

BUSY_AGAIN: Final = 5.0
"""Most seconds until a row is tried again that somebody held: that costs the API server nothing."""

REFUSALS: Final = 3
"""Refusals of the database in a row after which the schema is looked at again."""

CANCEL: Final = "cancel:"
"""How notifications begin that are meant for one worker."""

FIRST_BACKOFF: Final = 0.5
MAX_BACKOFF: Final = 15.0
"""Seconds: bounds of the wait after a failed pass, which doubles, with jitter."""

LOOP: Final = "the reconciler"


class ListedT(Protocol):
    """Of what there was a full list."""

    @property
    def began(self) -> bool:
        """Something was listed, so that something may be decided."""


class Reconciler:
    """Passes over everything, one at a time."""

    def __init__(
        self,
        cache: ObjectCache,
        database: Database,
        *,
        keepers: Sequence[Keeper],
        publisher: Publisher,
        doorman: Doorman,
        scaler: Scaler,
        listed: ListedT,
        config: Config,
        metrics: Metrics,
        beats: Beats,
    ) -> None:
        self._cache, self._database, self._listed = cache, database, listed
        self._keepers, self._publisher, self._doorman = keepers, publisher, doorman
        self._scaler, self._config, self._metrics, self._beats = scaler, config, metrics, beats
        self._ticks = Ticks(config.numbers_every, config.drift_every)
        self._epoch: int | None = None
        self._store: OperatorStore | None = None
        self._failures = 0
        self._failing_since: float | None = None
        self._again: dict[tuple[Kind, str], float] = {}
        self._tries: dict[tuple[Kind, str], int] = {}
        self._news: set[str] = set()

    async def run(self) -> None:
        """Reconcile until cancelled.

        Raises:
            OfficeLost: another operator took office for this cluster id.
        """
        while True:
            self._beats.beat(LOOP)
            with self._metrics.passes.time():
                await self._try_pass()
            self._beats.beat(LOOP)
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
        store = await self._take_office()
        if not self._listed.began:
            return
        everything = self._ticks.drift_is_due(now)
        await self._keep_rows(store, self._dirty(now), everything=everything)
        if everything:
            self._ticks.drift_done(now)
        if everything or self._ticks.numbers_are_due(now):
            self._news.clear()
            await self._numbers(store)
            self._ticks.numbers_done(now, time.monotonic())
        elif self._ticks.news_is_due(now):
            news, self._news = self._news, set()
            self._scaler.hear(of_queues(await self._publisher.publish(store, Kind.QUEUE, news)))
            self._ticks.news_done(now, time.monotonic())

    async def _numbers(self, store: OperatorStore) -> None:
        await self._publisher.publish(store, Kind.LIMIT)
        numbers = of_queues(await self._publisher.publish(store, Kind.QUEUE))
        # registered first and looked at once more, so that what came in between is not missed
        if await self._doorman.watch(self._epoch or 0, (name for name, each in numbers.items() if not each.workers)):
            numbers = await store.queue_numbers(sorted(numbers))
        self._scaler.hand_over(self._epoch or 0, self._publisher.owners(Kind.QUEUE), numbers)

    def hear(self, queue: str) -> None:
        """Look soon at a queue that nobody serves and that has news; at everything with an empty name."""
        now = time.monotonic()
        if not queue:
            self._ticks.numbers_soon(now)
            self._cache.woken.set()
        elif not queue.startswith(CANCEL) and self._doorman.watches(queue):
            self._news.add(queue)
            if self._ticks.news_soon(now):
                self._cache.woken.set()

    def note_list(self) -> None:
        """Look at every row soon: a full list may have shown what is gone."""
        self._ticks.drift_soon(time.monotonic())
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
        now, kind = time.monotonic(), keeper.kind
        for each in [each for each in self._tries if each[0] is kind and (rows is None or each[1] in rows)]:
            if each[1] not in kept.again:
                del self._tries[each]
        for row in kept.again:
            tries = self._tries[kind, row] = self._tries.get((kind, row), 0) + 1
            longest = BUSY_AGAIN if row in kept.busy else LAST_AGAIN
            self._again[kind, row] = now + min(longest, FIRST_AGAIN * 2 ** min(tries - 1, 10))
        if kept.orphans:
            clock = await store.clock()
            for row, ends_at in kept.orphans.items():
                self._again[kind, row] = now + max(0.0, (ends_at - clock).total_seconds()) + DEBOUNCE
        if rows is not None:
            await self._publisher.publish(store, kind, rows)

    async def _take_office(self) -> OperatorStore:
        store = await self._database.store()
        if self._epoch is None or store is not self._store:
            if self._epoch is None:
                await self._database.prepare(migrating=self._config.migrate)
                for former in self._config.former_cluster_ids:
                    await store.succeed(former, self._config.identity, watcher_of(former))
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
        self._scaler.go_blind(self._publisher.undisputed(Kind.QUEUE))

    async def _rest(self) -> None:
        if self._failures:
            longest = min(MAX_BACKOFF, FIRST_BACKOFF * 2 ** min(self._failures, 10))
            await asyncio.sleep(random.uniform(longest / 2, longest))  # noqa: S311 - jitter, not a secret
            return
        latest = time.monotonic() + REST
        while True:
            self._cache.woken.clear()
            if self._cache.is_dirty:
                await asyncio.sleep(DEBOUNCE)
                return
            until = min([latest, self._ticks.next() if self._listed.began else latest, *self._again.values()])
            try:
                async with asyncio.timeout(max(0.0, until - time.monotonic())):
                    await self._cache.woken.wait()
            except TimeoutError:
                return


def of_queues(numbers: Mapping[str, LimitStatus | QueueNumbers]) -> dict[str, QueueNumbers]:
    """Return those of the numbers that are queues'."""
    return {name: each for name, each in numbers.items() if isinstance(each, QueueNumbers)}


_UNAVAILABLE = "Postgres does not answer; what it holds stays in force, and the operator goes on trying"
_REFUSED = "Postgres refuses what the operator asks; its log says why"
