"""Enters the worker into the database: at its start, and again under a new identity after a rescue."""

import logging
from uuid import uuid4

from tidegate.ports import Registration, WorkerStorePort
from tidegate.runtime.clocks import DatabaseClock, now
from tidegate.runtime.leases import Lease
from tidegate.runtime.ledgers import Ledger
from tidegate.runtime.settings import WorkerSettings

log = logging.getLogger("tidegate.worker")


class Registrar:
    """Checks the schema once, then registers as often as it takes.

    Args:
        settings: what the worker's row says of it.
        actors: names of the actors it knows.
        slots: jobs that it runs at once at most, for planning.
        ledger: holds the identity; ``registered_as`` is set here.
        lease: counts from the start of the registration.
        clock: learns the database's time.
        store: where to register.
    """

    def __init__(
        self,
        *,
        settings: WorkerSettings,
        actors: list[str],
        slots: int,
        ledger: Ledger,
        lease: Lease,
        clock: DatabaseClock,
        store: WorkerStorePort,
    ) -> None:
        self._settings = settings
        self._actors = actors
        self._slots = slots
        self._ledger = ledger
        self._lease = lease
        self._clock = clock
        self._store = store
        self._schema_fits = False
        self._problem = ""

    async def enter(self) -> bool:
        """Register; False while the schema is missing or older than this release, which is logged once."""
        if not self._schema_fits:
            problem = await self._store.schema_problem()
            if problem is not None:
                if problem != self._problem:
                    log.warning("waiting for the schema", extra={"reason": problem})
                self._problem = problem
                return False
            self._schema_fits = True
        settings, ledger = self._settings, self._ledger
        # A new identity with each try: a registration whose reply was lost may stand.
        ledger.worker = uuid4()
        sent = now()
        registered_at = await self._store.register_worker(
            Registration(
                worker=ledger.worker,
                name=settings.name,
                queues=list(settings.queues),
                actors=self._actors,
                slots=self._slots,
                fair=settings.fair,
                lease=settings.lease,
                version=settings.version,
                namespace=settings.namespace,
                pod=settings.pod,
            )
        )
        self._clock.observe(registered_at, sent, now())
        self._lease.renew(sent)
        ledger.registered_as = ledger.worker
        log.info(
            "worker registered",
            extra={
                "worker": str(ledger.worker),
                "worker_name": settings.name,
                "queues": list(settings.queues),
                "slots": self._slots,
            },
        )
        return True
