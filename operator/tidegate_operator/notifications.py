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
from tidegate.store.listening import Listener
from tidegate_operator.databases import Database

logger = logging.getLogger(__name__)

_WATCHERS: Final = UUID("6f1d0f3e-6f0b-4a4e-9d0e-3a2a4e6d1c57")

HOUSE_EVERY: Final = 5.0
"""Seconds between two rounds of housekeeping, while some queue has no worker that would do it."""

RETRY: Final = 5.0
"""Most seconds before a lost connection for notifications is opened again."""

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
    """

    def __init__(self, database: Database, cluster: str, url: Callable[[], str]) -> None:
        self._database, self._url = database, url
        self._watcher = watcher_of(cluster)
        self._watched: frozenset[str] | None = None

    async def watch(self, queues: Iterable[str]) -> bool:
        """Ask for news of exactly these queues; True where that changed, so that they are to be looked at once more.

        Raises:
            DatabaseError: nothing is known of it; it is asked again.
        """
        wanted = frozenset(queues)
        if wanted == self._watched:
            return False
        self._watched = None
        await (await self._database.store()).watch_queues(self._watcher, sorted(wanted))
        self._watched = wanted
        return bool(wanted)

    async def listen(self, heard: Callable[[str], None]) -> None:
        """Call ``heard`` with each queue that has news, until cancelled; over lost connections too."""
        try:
            while True:
                with suppress(DatabaseError, ConfigurationError):
                    # what came while nobody listened is found by the look that this asks for
                    await Listener(self._url()).listen(lambda: heard(""), heard)
                await asyncio.sleep(random.uniform(RETRY / 5, RETRY))  # noqa: S311 - jitter, not a secret
        finally:
            await self._leave()

    async def keep_house(self) -> None:
        """Fold mail and promote what is due where no worker does, until cancelled."""
        while True:
            await asyncio.sleep(HOUSE_EVERY)
            if self._watched:
                try:
                    await (await self._database.store()).maintain(self._watcher)
                except (DatabaseError, ConfigurationError) as error:
                    logger.debug("housekeeping failed", extra={"error": str(error)})

    async def _leave(self) -> None:
        with suppress(DatabaseError, ConfigurationError, TimeoutError):
            async with asyncio.timeout(GOODBYE):
                await (await self._database.store()).watch_queues(self._watcher, [])
