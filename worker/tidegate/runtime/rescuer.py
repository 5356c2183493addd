"""Housekeeping that every worker shares: rescue of dead workers' jobs, and maintenance."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import timedelta

from tidegate.errors import DatabaseError
from tidegate.ports import WorkerGone, WorkerStorePort
from tidegate.runtime.backoffs import jittered
from tidegate.runtime.clocks import now
from tidegate.runtime.contacts import Contact
from tidegate.runtime.ledgers import Ledger
from tidegate.runtime.lines import Lines

SOON = 0.2
"""Seconds from the start to the first call, which tells whether there are other workers."""

log = logging.getLogger("tidegate.worker")


class Rescuer:
    """Calls ``rescue`` every third of the lease and ``maintain`` every so often, both with jitter.

    The database decides whether this worker may judge others and does nothing twice, so all workers may ask.

    Args:
        ledger: the worker's identity.
        store: where to call.
        contact: told of failures.
        lines: told whether other workers serve the same queues.
        lease: of this worker.
        maintenance: time between two calls of ``maintain``.
        on_call: told of each call, in whose place an idle worker leaves a poll out.
        wake: takes the keys that were busy while a rescue freed capacity.
    """

    def __init__(
        self,
        ledger: Ledger,
        store: WorkerStorePort,
        contact: Contact,
        lines: Lines,
        *,
        lease: timedelta,
        maintenance: timedelta,
        on_call: Callable[[], None],
        wake: Callable[[Sequence[str]], None],
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._contact = contact
        self._lines = lines
        self._rescue_every = lease.total_seconds() / 3
        self._maintain_every = maintenance.total_seconds()
        self._on_call = on_call
        self._wake = wake

    async def run(self) -> None:
        """Work until cancelled."""
        rescue_at = now() + jittered(SOON)
        maintain_at = now() + jittered(self._maintain_every)
        while True:
            await asyncio.sleep(max(0.0, min(rescue_at, maintain_at) - now()))
            if self._ledger.registered_as is None:
                await asyncio.sleep(self._rescue_every / 10)
                continue
            self._on_call()
            try:
                if rescue_at <= now():
                    rescue_at = now() + jittered(self._rescue_every)
                    await self._rescue()
                else:
                    maintain_at = now() + jittered(self._maintain_every)
                    await self._store.maintain(self._ledger.worker)
                self._contact.well("chores")
            except DatabaseError as error:
                self._contact.failed("chores", error)
            except WorkerGone:
                log.debug("housekeeping left to others until this worker is registered again")

    async def _rescue(self) -> None:
        reply = await self._store.rescue(self._ledger.worker, self._lines.names)
        self._lines.shared = reply.shared
        for rescued in reply.rescued:
            self._wake(rescued.wake)
            log.warning(
                "took back the jobs of a worker that is gone",
                extra={"rescued": str(rescued.worker), "jobs": rescued.jobs, "dead": rescued.dead},
            )
