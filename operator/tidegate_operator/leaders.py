"""What a leader does, all of it: the loops that keep rows, statuses and Deployments as the objects ask."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Protocol

from tidegate.ports import OfficeLost
from tidegate_operator.beats import Beats, turning
from tidegate_operator.caches import ObjectCache
from tidegate_operator.config import Config
from tidegate_operator.databases import Database
from tidegate_operator.keepers import Keeper, ObjectsT
from tidegate_operator.listers import Lister
from tidegate_operator.metrics import Metrics
from tidegate_operator.notifications import Doorman
from tidegate_operator.publishers import Publisher
from tidegate_operator.reconciler import Reconciler
from tidegate_operator.resources import Kind
from tidegate_operator.scalers import DeploymentsT, Scaler
from tidegate_operator.writers import EventsT, StatusesT, Writer


class ReadAndWrittenT(ObjectsT, StatusesT, Protocol):
    """Objects, and their statuses."""


class Leader:
    """The work of one leader, from taking office to losing it or its lease.

    Args:
        cache: what the watch has shown.
        objects, events, deployments: the API server.
        database: where rows are kept.
        listen_url: where to listen for notifications.
        config: the settings.
        cluster_id: under which rows are marked.
        metrics: where counts go.
        beats: where each loop shows that it turns.
    """

    def __init__(
        self,
        cache: ObjectCache,
        objects: ReadAndWrittenT,
        events: EventsT,
        deployments: DeploymentsT,
        database: Database,
        *,
        listen_url: Callable[[], str],
        config: Config,
        cluster_id: str,
        metrics: Metrics,
        beats: Beats,
    ) -> None:
        self._metrics, self._beats = metrics, beats
        self._writer = Writer(cache, objects, events, metrics=metrics, beats=beats)
        publisher = Publisher(cache, self._writer, metrics)
        self._doorman = Doorman(database, cluster_id, listen_url, metrics=metrics, beats=beats)
        self._scaler = Scaler(
            deployments, database, metrics=metrics, beats=beats, show=publisher.take_scaling, tell=publisher.tell
        )
        self._lister = Lister(
            cache,
            objects,
            namespaces=config.namespaces,
            every=config.list_every,
            metrics=metrics,
            beats=beats,
        )
        keepers = [
            Keeper(
                kind,
                cache,
                objects,
                config=config,
                cluster=cluster_id,
                namespaces=lambda: self._lister.known,
                metrics=metrics,
            )
            for kind in (Kind.QUEUE, Kind.LIMIT)
        ]
        self.reconciler = Reconciler(
            cache,
            database,
            keepers=keepers,
            publisher=publisher,
            doorman=self._doorman,
            scaler=self._scaler,
            listed=self._lister,
            config=config,
            metrics=metrics,
            beats=beats,
        )

    async def work(self) -> None:
        """Work until cancelled; one loop that ends ends all.

        Raises:
            OfficeLost: another operator took office for this cluster id.
            LoopEnded: a loop came to its end.
        """
        loops = {
            "the reconciler": self.reconciler.run,
            "lists": lambda: self._lister.run(self.reconciler.note_list),
            "writes": self._writer.run,
            "scaling": self._scaler.run,
            "listening": lambda: self._doorman.listen(self.reconciler.hear),
            "housekeeping": self._doorman.keep_house,
        }
        self._metrics.leads.set(1)
        try:
            async with asyncio.TaskGroup() as group:
                for name, run in loops.items():
                    group.create_task(turning(name, run()), name=name)
        except BaseExceptionGroup as ended:
            lost = ended.subgroup(OfficeLost)
            raise next(_leaves(lost if lost is not None else ended)) from None
        finally:
            self._metrics.leads.set(0)
            self._metrics.hide()
            self._beats.clear()


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each
