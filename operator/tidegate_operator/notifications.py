"""News of queues that nobody serves: the operator watches them as an idle worker does, and keeps house for them.

A notification is a hint that shortens a wait. The numbers are read every two seconds all the same.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final
from uuid import UUID, uuid5

from tidegate.errors import ConfigurationError, DatabaseError
from tidegate.ports import OfficeLost
from tidegate.store.listening import Listener
from tidegate_operator.beats import Beats
from tidegate_operator.databases import Database
from tidegate_operator.metrics import Metrics
from tidegate_operator.outages import Outages

logger = logging.getLogger(__name__)

_WATCHERS: Final = UUID("6f1d0f3e-6f0b-4a4e-9d0e-3a2a4e6d1c57")

HOUSE_EVERY: Final = 5.0
"""Seconds between two rounds of housekeeping, while some queue has no worker that would do it."""

RETRY: Final = 5.0
"""Most seconds before a lost connection for notifications is opened again."""

CHECK_EVERY: Final = 30.0
"""Seconds between two looks whether a connection on which nothing comes is still there."""

LOOP: Final = "housekeeping"

GOODBYE: Final = 2.0
"""Seconds for taking our name off the queues when the work ends."""


def watcher_of(cluster: str) -> UUID:
    """Return the identity under which a cluster's operator watches: the same after each start, so that none is left."""
    return uuid5(_WATCHERS, cluster)


class Doorman:
    """Hears of queues without workers.

    Args:
        database: whose notifications.
        cluster: the cluster id.
        url: where to listen; a pooler in transaction mode loses LISTEN, so this may be another URL than the store's.
        metrics: where counts go, and whether somebody listens.
        beats: where housekeeping shows that it turns.
    """

    def __init__(
        self, database: Database, cluster: str, url: Callable[[], str], *, metrics: Metrics, beats: Beats
    ) -> None:
        self._database, self._url, self._metrics, self._beats = database, url, metrics, beats
        self._outages = Outages(logger, metrics)
        self._watcher = watcher_of(cluster)
        self._watched: frozenset[str] | None = None
        self._epoch: int | None = None

    async def watch(self, epoch: int, queues: Iterable[str]) -> bool:
        """Ask for news of exactly these queues; True where that changed, so that they are to be looked at once more.

        Raises:
            DatabaseError: nothing is known of it; it is asked again.
            OfficeLost: another operator leads, and watches under the same name.
        """
        wanted = frozenset(queues)
        if (epoch, wanted) == (self._epoch, self._watched):
            return False
        self._watched, self._epoch = None, epoch
        await (await self._database.store()).watch_queues(epoch, self._watcher, sorted(wanted))
        self._watched = wanted
        return bool(wanted)

    def watches(self, queue: str) -> bool:
        """Tell whether news of a queue is ours: its workers hear of every other."""
        return self._watched is not None and queue in self._watched

    async def listen(self, heard: Callable[[str], None]) -> None:
        """Call ``heard`` with each queue that has news, until cancelled; over lost connections too."""

        def opened() -> None:
            self._metrics.listening.set(1)
            self._outages.over("listening")
            # what came while nobody listened is found by the look that this asks for
            heard("")

        try:
            while True:
                try:
                    await self._listen(opened, heard)
                except (DatabaseError, ConfigurationError) as error:
                    self._metrics.listening.set(0)
                    self._outages.failed("listening", error)
                await asyncio.sleep(random.uniform(RETRY / 5, RETRY))  # noqa: S311 - jitter, not a secret
        finally:
            self._metrics.listening.set(0)
            await self._leave()

    async def _listen(self, opened: Callable[[], None], heard: Callable[[str], None]) -> None:
        """Listen until the connection is lost, or until the URL is another one."""
        url = self._url()
        listening = asyncio.create_task(Listener(url, check_every=CHECK_EVERY).listen(opened, heard))
        try:
            while not (await asyncio.wait([listening], timeout=RETRY))[0]:
                if self._url() != url:
                    logger.info("the URL for notifications has changed; listening anew")
                    return
            await listening
        finally:
            listening.cancel()
            await asyncio.wait([listening])

    async def keep_house(self) -> None:
        """Fold mail and promote what is due where no worker does, until cancelled."""
        while True:
            self._beats.beat(LOOP)
            await asyncio.sleep(HOUSE_EVERY)
            if self._watched:
                try:
                    await (await self._database.store()).maintain(self._watcher)
                except (DatabaseError, ConfigurationError) as error:
                    self._outages.failed("housekeeping", error)
                else:
                    self._outages.over("housekeeping")

    async def _leave(self) -> None:
        """Give up what this leader asked for; where another leads by now, that is his, under the same name."""
        if self._epoch is None:
            return
        with suppress(DatabaseError, ConfigurationError, OfficeLost, TimeoutError):
            async with asyncio.timeout(GOODBYE):
                await (await self._database.store()).watch_queues(self._epoch, self._watcher, [])
