"""Tells queues that wait for a key which was busy when its capacity was freed; after commit, in the background."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from tidegate.errors import DatabaseError
from tidegate.ports import WorkerStorePort
from tidegate.runtime.backoffs import Backoff


class Waker:
    """Calls ``wake`` until no key is busy. Maintenance does the same for workers that die in between."""

    def __init__(self, store: WorkerStorePort) -> None:
        self._store = store
        self._keys: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def wake(self, keys: Sequence[str]) -> None:
        """Take keys to wake; returns at once."""
        self._keys.update(keys)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def finish(self, seconds: float) -> None:
        """Wait until no key is left, at most so long; what is left then is up to maintenance."""
        if self._task is not None:
            _, late = await asyncio.wait({self._task}, timeout=seconds)
            for task in late:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _run(self) -> None:
        backoff = Backoff(first=0.01, longest=0.5)
        try:
            while self._keys:
                keys, self._keys = sorted(self._keys), set()
                try:
                    self._keys.update(await self._store.wake(keys))
                except DatabaseError:
                    self._keys.update(keys)
                if self._keys:
                    await asyncio.sleep(backoff.next())
        finally:
            self._task = None
