"""Fetches payloads that were too large to come with a claim, one by one, when their code starts."""

import asyncio

from tidegate.errors import DatabaseError
from tidegate.ports import WorkerStorePort
from tidegate.runtime.backoffs import Backoff
from tidegate.runtime.contacts import Contact
from tidegate.runtime.ledgers import Held, Ledger


class PayloadFetcher:
    """``PayloadSource`` of a worker.

    Args:
        ledger: the worker's identity.
        store: where to fetch.
        contact: told of failures.
    """

    def __init__(self, ledger: Ledger, store: WorkerStorePort, contact: Contact) -> None:
        self._ledger = ledger
        self._store = store
        self._contact = contact

    async def __call__(self, held: Held) -> str | None:
        """Return the payload as JSON text, however long the database is away; None where the job is lost."""
        worker, backoff = self._ledger.worker, Backoff()
        try:
            while True:
                try:
                    payload = await self._store.payload_of(held.job, worker, held.claim)
                except DatabaseError as error:
                    # Given back at once, it would be claimed at once: wait here, until the self-fence at most.
                    self._contact.failed("payloads", error)
                    await asyncio.sleep(backoff.next())
                else:
                    self._contact.well("payloads")
                    return payload
        finally:
            self._contact.forget("payloads")
