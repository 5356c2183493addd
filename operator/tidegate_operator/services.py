"""The process: everything wired together, from the first look at the API server to a clean end."""

from __future__ import annotations

import asyncio
import logging
import signal
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tidegate.store.urls import check_database_url
from tidegate_operator.beats import Beats
from tidegate_operator.caches import ObjectCache
from tidegate_operator.cluster.connections import Cluster, connect
from tidegate_operator.cluster.elector import LeaseTimes
from tidegate_operator.cluster.preflight import check
from tidegate_operator.config import Config
from tidegate_operator.databases import Database, from_file
from tidegate_operator.errors import ClusterUnavailable
from tidegate_operator.handlers.feeds import feed
from tidegate_operator.health import serving
from tidegate_operator.leaders import Leader
from tidegate_operator.metrics import Metrics
from tidegate_operator.watches import Watches

logger = logging.getLogger(__name__)

STALLED_AFTER: Final = 120.0
"""Seconds after which a loop that does not turn counts as dead: several timeouts of the database fit in."""

RETRY: Final = 2.0
"""Seconds between two looks for an API server that does not answer at the start."""

FEED_END: Final = 10.0
"""Seconds that the watch gets to end."""


@dataclass
class Service:
    """One process of the operator."""

    config: Config
    metrics: Metrics = field(default_factory=Metrics)
    cache: ObjectCache = field(default_factory=ObjectCache)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    beats: Beats = field(default_factory=Beats)
    _watches: Watches | None = None

    async def run(self) -> None:
        """Serve until SIGTERM or Ctrl-C, and leave with the lease released.

        Raises:
            ConfigurationError: something is missing that only a person can add.
            OfficeLost: another operator works under the same cluster id.
            LoopEnded: a loop of the leader came to its end.
        """
        self._catch_signals()
        async with (
            serving(self.config.port, self.metrics, self._alive, self._why_not_ready),
            connect(self.config.identity) as cluster,
        ):
            cluster_id = await self._preflight(cluster)
            if cluster_id is not None:
                await self._serve(cluster, cluster_id)

    async def _preflight(self, cluster: Cluster) -> str | None:
        """Return the cluster id once everything is there; None when the process is to stop before."""
        said = False
        while not self.stop.is_set():
            try:
                await check(cluster.objects, self.config.namespaces)
                return self.config.cluster_id or await cluster.objects.cluster_id()
            except ClusterUnavailable as error:
                if not said:
                    logger.warning("waiting for the API server", extra={"error": str(error)})
                said = True
            try:
                async with asyncio.timeout(RETRY):
                    await self.stop.wait()
            except TimeoutError:
                continue
        return None

    async def _serve(self, cluster: Cluster, cluster_id: str) -> None:
        database = self._database(cluster_id)
        leading = asyncio.create_task(self._lead(cluster, cluster_id, database), name="leading")
        stopping = asyncio.create_task(self.stop.wait(), name="stopping")
        stop_feed = asyncio.Event()
        self._watches = Watches(
            self.cache,
            cluster.objects,
            lambda namespace, stop, begun: feed(self.cache, cluster.access, namespace, stop, begun),
            namespaces=self.config.namespaces,
            metrics=self.metrics,
            started=self._catch_signals,
        )
        feeding = asyncio.create_task(self._watches.run(stop_feed), name="feeding")
        try:
            await asyncio.wait({leading, stopping, feeding}, return_when=asyncio.FIRST_COMPLETED)
            ended = [task for task in (leading, feeding) if task.done()]
        finally:
            # the leader first: nothing of it may be cut short by the end of the watch
            leading.cancel()
            await asyncio.wait({leading})
            stop_feed.set()
            stopping.cancel()
            await asyncio.wait({feeding}, timeout=FEED_END)
            await database.close()
        for task in ended:
            await task

    async def _lead(self, cluster: Cluster, cluster_id: str, database: Database) -> None:
        me = f"{self.config.identity}_{uuid.uuid4().hex[:8]}"
        elector = cluster.elector(self.config.lease_namespace, self.config.lease_name, me, LeaseTimes())
        while True:
            await elector.run(lambda: self._work(cluster, cluster_id, database))

    async def _work(self, cluster: Cluster, cluster_id: str, database: Database) -> None:
        leader = Leader(
            self.cache,
            cluster.objects,
            cluster.events,
            cluster.deployments,
            database,
            listen_url=self._listen_url(database),
            config=self.config,
            cluster_id=cluster_id,
            metrics=self.metrics,
            beats=self.beats,
        )
        await leader.work()

    def _database(self, cluster_id: str) -> Database:
        config = self.config
        if config.database_url_file is not None:
            return Database(from_file(config.database_url_file), cluster_id)
        url = check_database_url(config.database_url or "")
        return Database(lambda: url, cluster_id)

    def _listen_url(self, database: Database) -> Callable[[], str]:
        file = self.config.listen_url_file
        return from_file(file) if file is not None else lambda: database.url

    def _catch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, self.stop.set)

    def _alive(self) -> str | None:
        return self.beats.late(STALLED_AFTER)

    def _why_not_ready(self) -> str | None:
        return "the watch has not begun" if self._watches is None else self._watches.problem
