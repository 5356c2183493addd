"""The worker's calls: four connections at most, so that slow calls never stand before fast ones.

``claims`` carries claims and outcomes, ``errands`` wakes keys and fetches large payloads, ``chores`` rescues and
maintains, and the heartbeat thread has one of its own. All but the first are opened when they are first needed.
"""

import json
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tidegate.errors import ConfigurationError, DatabaseError, SchemaOutdated
from tidegate.ports import (
    ClaimedJob,
    ClaimReply,
    ClaimRequest,
    HeartbeatReply,
    OutcomeReply,
    Registration,
    Rescued,
    RescueReply,
)
from tidegate.store.engine import Engine
from tidegate.store.migrating import schema_state
from tidegate.store.statements import statement
from tidegate.store.worker_sessions import DRIVER_ERRORS, WorkerSession, unavailable

STATEMENT_TIMEOUT = 10.0
"""Seconds for one call of a worker (reliability.md)."""

CHORE_TIMEOUT = 60.0
"""Seconds for one call of ``maintain``, which is many short transactions."""

UNSTORABLE = "the text of this error could not be stored"
"""Stands for an error text that the database refuses: a row must never stick for the sake of a text."""

_DATA_EXCEPTION = "22"


class HeartbeatStore:
    """``HeartbeatPort`` on a connection of its own; ``timeout`` is in seconds."""

    def __init__(self, database_url: str, timeout: float) -> None:
        self._session = WorkerSession(database_url, application_name="tidegate heartbeats", timeout=timeout)

    async def heartbeat(
        self, worker: UUID, jobs: list[int], claims: list[int], next_claim: int, *, unbroken: bool
    ) -> HeartbeatReply:
        """Renew the lease and compare what is held: see ``HeartbeatPort``."""
        row = (await self._session.fetch(statement("heartbeat"), worker, jobs, claims, next_claim, unbroken))[0]
        return HeartbeatReply(
            row["alive"],
            row["draining"],
            row["seen_at"],
            row["cancelled"] or (),
            row["missing"] or (),
            row["returned"],
            row["wake"] or (),
        )

    async def close(self) -> None:
        """Close the connection."""
        await self._session.close()


class WorkerStore:
    """``WorkerStorePort`` on Postgres.

    Args:
        database_url: where the schema ``tidegate`` is.
        heartbeat_timeout: a heartbeat that takes longer has failed; a third of the lease leaves room for another try.
    """

    def __init__(self, database_url: str, *, heartbeat_timeout: timedelta) -> None:
        self._database_url = database_url
        self._heartbeat_timeout = heartbeat_timeout.total_seconds()
        self._claims = WorkerSession(database_url, application_name="tidegate claims", timeout=STATEMENT_TIMEOUT)
        self._errands = WorkerSession(database_url, application_name="tidegate errands", timeout=STATEMENT_TIMEOUT)
        self._chores = WorkerSession(database_url, application_name="tidegate chores", timeout=CHORE_TIMEOUT)

    async def schema_problem(self) -> str | None:
        """Return what to do about a missing or older schema; a newer one serves an older release."""
        engine = Engine(self._database_url, max_size=1, application_name="tidegate claims")
        try:
            state = await schema_state(engine)
        except DRIVER_ERRORS as error:
            raise unavailable(self._database_url, error) from error
        finally:
            with suppress(*DRIVER_ERRORS):
                await engine.close()
        if state.version is None or state.version < state.latest:
            return str(SchemaOutdated(state.version, state.latest))
        return None

    async def register_worker(self, registration: Registration) -> datetime:
        """Make the worker known, and return the database's time.

        Raises:
            ConfigurationError: the database refuses what the worker says of itself, now and at every further try.
        """
        try:
            row = await self._claims.fetch(
                statement("register_worker"),
                registration.worker,
                registration.name,
                registration.queues,
                registration.actors,
                registration.slots,
                registration.fair,
                registration.lease,
                registration.version,
                registration.namespace,
                registration.pod,
            )
        except DatabaseError as error:
            if not _is_data_exception(error):
                raise
            raise ConfigurationError(
                f"the database refuses to register this worker; check its name, queues, actors and options. {error}"
            ) from error
        registered: datetime = row[0]["registered_at"]
        return registered

    async def claim(self, request: ClaimRequest) -> ClaimReply:
        """Hand in and claim; an early one lets go of the queue before the disk has it."""
        sql = statement("claim_early") if request.early else statement("claim")
        rows = await self._claims.fetch(
            sql,
            request.worker,
            request.claim,
            request.queue,
            request.slots,
            request.actors,
            request.rooms,
            request.budget,
            request.fair,
            request.done_jobs or None,
            request.done_claims or None,
            request.largest,
            request.refused_above,
        )
        if rows and rows[-1]["id"] is None:
            last = rows.pop()
            jobs = [_claimed(row) for row in rows]
            stale, locked = last["stale"] or (), last["locked"] or ()
            return ClaimReply(jobs, last["next_at"], last["wake"] or (), stale, locked, last["cut"])
        return ClaimReply([_claimed(row) for row in rows])

    async def flush(self) -> None:
        """Commit synchronously, which flushes all that was committed before."""
        await self._claims.fetch(statement("flush"))

    async def ack(self, worker: UUID, jobs: list[int], claims: list[int]) -> OutcomeReply:
        """Finish jobs."""
        row = (await self._claims.fetch(statement("ack"), worker, jobs, claims))[0]
        return OutcomeReply(row["stale"] or (), row["wake"] or ())

    async def nack(
        self, worker: UUID, jobs: list[int], claims: list[int], errors: list[str], tracebacks: list[str], *, retry: bool
    ) -> OutcomeReply:
        """Record failed attempts, with placeholders where the server's encoding has no room for a text."""
        sql = statement("nack")
        try:
            rows = await self._claims.fetch(sql, worker, jobs, claims, errors, tracebacks, retry)
        except DatabaseError as error:
            if not _is_data_exception(error):
                raise
            empty = [""] * len(jobs)
            rows = await self._claims.fetch(sql, worker, jobs, claims, [UNSTORABLE] * len(jobs), empty, retry)
        return OutcomeReply(rows[0]["stale"] or (), rows[0]["wake"] or (), rows[0]["dead"] or ())

    async def release(
        self, worker: UUID, jobs: list[int], claims: list[int], delay: timedelta | None = None
    ) -> OutcomeReply:
        """Give jobs back, the attempt not spent."""
        row = (await self._claims.fetch(statement("release"), worker, jobs, claims, delay))[0]
        return OutcomeReply(row["stale"] or (), row["wake"] or ())

    async def sleep_on(self, worker: UUID, queues: list[str]) -> None:
        """Ask for notifications of exactly these queues."""
        await self._claims.fetch(statement("sleep_on"), worker, queues)

    async def probe(self, queues: list[str], actors: list[str]) -> dict[str, datetime | None]:
        """Return when a claim may find something, by queue, in one statement without locks."""
        rows = await self._claims.fetch(statement("probe"), queues, actors)
        return {row["queue"]: row["next_at"] for row in rows}

    async def wake(self, keys: list[str]) -> list[str]:
        """Tell the queues that wait for these keys; return the keys that are still busy."""
        rows = await self._errands.fetch(statement("wake"), keys)
        return rows[0]["busy"] or []

    async def payload_of(self, job: int, worker: UUID, claim: int) -> str | None:
        """Return a large payload as JSON text."""
        rows = await self._errands.fetch(statement("payload_of"), job, worker, claim)
        payload: str | None = rows[0]["payload"]
        return payload

    async def rescue(self, worker: UUID, queues: list[str]) -> RescueReply:
        """Take the jobs of dead workers back, and tell whether others serve these queues."""
        rows = await self._chores.fetch(statement("rescue"), worker, queues)
        rescued = [
            Rescued(row["worker"], row["jobs"], row["dead"], row["wake"] or ())
            for row in rows
            if row["worker"] is not None
        ]
        return RescueReply(rescued, rows[0]["shared"])

    async def maintain(self, worker: UUID) -> None:
        """Do a share of the housekeeping."""
        await self._chores.fetch(statement("maintain"), worker)

    async def leave(self, worker: UUID) -> int:
        """End this worker, and wake for what it gave back; return how many jobs went back."""
        row = (await self._claims.fetch(statement("leave"), worker))[0]
        if row["wake"]:
            # what is busy still, maintenance of any worker tells
            await self.wake(row["wake"])
        returned: int = row["returned"]
        return returned

    def heartbeats(self) -> HeartbeatStore:
        """Return the heartbeat thread's own port."""
        return HeartbeatStore(self._database_url, self._heartbeat_timeout)

    async def close(self) -> None:
        """Close every connection."""
        for session in (self._claims, self._errands, self._chores):
            with suppress(DatabaseError):
                await session.close()


def _claimed(row: Any) -> ClaimedJob:
    job = ClaimedJob(*row[: len(ClaimedJob._fields)])
    # jsonb is text to the driver
    return job if job.headers is None else job._replace(headers=json.loads(str(job.headers)))


def _is_data_exception(error: DatabaseError) -> bool:
    return str(getattr(error.__cause__, "sqlstate", "")).startswith(_DATA_EXCEPTION)
