"""What the operator asks of the database: rows with their owners, live numbers, and batches that a fence guards."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import Any, Literal
from uuid import UUID

from pydantic import ValidationError

from tidegate.errors import DatabaseError
from tidegate.model.demands import CrewMember, QueueNumbers
from tidegate.model.limits import LimitPolicy, LimitStatus
from tidegate.model.ownership import HeldRow, Outcome, Ownership
from tidegate.model.queues import QueueSpec
from tidegate.ports import OfficeLost
from tidegate.store.statements import statement
from tidegate.store.worker_sessions import WorkerSession

Table = Literal["limits", "queues"]
"""Which rows: limit keys, or queues."""

BATCH = 500
"""Rows of one statement: it holds their locks until it commits."""

PATIENCE = 5.0
"""Seconds for waiting, in all, for rows that somebody holds: one long transaction may hold thousands."""

STATEMENT_TIMEOUT = 10.0
"""Seconds for one call (reliability.md)."""

CHORE_TIMEOUT = 60.0
"""Seconds for one call of ``maintain``, which is many short transactions."""

UNREADABLE = "(an owner written by hand)"
"""Stands for the cluster of an owner that no operator wrote."""

_OFFICE_LOST = "TG001"
_LOCK_TIMEOUT = "55P03"


@dataclass(frozen=True)
class Wanted:
    """One row to change: the owner that the caller saw there, and the changes of ``change_limit`` or ``set_queue``."""

    name: str
    expected: Ownership | None
    changes: Mapping[str, Any]


class OperatorStore:
    """The operator's connections: one for what it reads and writes, one for housekeeping.

    Every call may raise ``DatabaseUnavailable`` where nothing is known of the statement's fate, and ``DatabaseError``
    where the server refused it. Calls that name an epoch raise `OfficeLost` once another operator took office.

    Args:
        database_url: where the schema ``tidegate`` is.
        cluster: id under which this cluster's rows are marked.
    """

    def __init__(self, database_url: str, cluster: str) -> None:
        self.cluster = cluster
        self._session = WorkerSession(database_url, application_name="tidegate operator", timeout=STATEMENT_TIMEOUT)
        self._chores = WorkerSession(database_url, application_name="tidegate operator chores", timeout=CHORE_TIMEOUT)

    async def take_office(self, holder: str) -> int:
        """Raise the epoch, after the last write of the leader before; ``holder`` is shown to people."""
        epoch: int = (await self._session.fetch(statement("take_office"), self.cluster, holder))[0]["epoch"]
        return epoch

    async def succeed(self, former: str, holder: str, watcher: UUID) -> None:
        """End the office of an id that was this cluster's before: a leader that still works under it is fenced out.

        ``watcher`` is the name under which that one asked for notifications.
        """
        epoch = (await self._session.fetch(statement("take_office"), former, holder))[0]["epoch"]
        await self._session.fetch(statement("watch_queues"), former, epoch, watcher, [])

    async def clock(self) -> datetime:
        """Return the database's time."""
        now: datetime = (await self._session.fetch(statement("database_clock")))[0]["now"]
        return now

    async def held(self, table: Table, names: Sequence[str], *, owners: Sequence[str] = ()) -> dict[str, HeldRow]:
        """Return those of these rows that exist, and every row of these clusters."""
        rows = await self._session.fetch(statement(f"held_{table}"), names, owners)
        read = _held_limit if table == "limits" else _held_queue
        return {held.name: held for held in map(read, rows)}

    async def own(self, table: Table, epoch: int, wanted: Sequence[Wanted]) -> dict[str, Outcome]:
        """Change rows in batches, in order; a row that somebody holds is waited for in a call of its own.

        What is still held after `PATIENCE` stays busy.
        """
        outcomes: dict[str, Outcome] = {}
        ordered = sorted(wanted, key=lambda each: each.name.encode())
        for start in range(0, len(ordered), BATCH):
            outcomes |= await self._call(table, epoch, ordered[start : start + BATCH])
        patience = monotonic() + PATIENCE
        for each in ordered:
            if outcomes[each.name] is Outcome.BUSY and monotonic() < patience:
                outcomes |= await self._patiently(table, epoch, each)
        return outcomes

    async def sweep(self, table: Table, epoch: int, wanted: Wanted, most: int) -> Outcome:
        """Change one row whose object is gone, if fewer than ``most`` rows were given up within a minute."""
        return (await self._patiently(table, epoch, wanted, most=most))[wanted.name]

    async def limit_numbers(self, keys: Sequence[str]) -> dict[str, LimitStatus]:
        """Return the live numbers of these keys."""
        rows = await self._session.fetch(statement("limit_numbers"), keys)
        return {row["key"]: LimitStatus.model_construct(**dict(row)) for row in rows}

    async def queue_numbers(self, names: Sequence[str]) -> dict[str, QueueNumbers]:
        """Return the live numbers of these queues."""
        rows = await self._session.fetch(statement("queue_numbers"), names)
        return {
            row["name"]: QueueNumbers(**{**row, "blocked_by": json.loads(row["blocked_by"])}) for row in map(dict, rows)
        }

    async def crews(self, namespaces: Sequence[str]) -> list[CrewMember]:
        """Return the live workers in pods of these namespaces."""
        return [CrewMember(**dict(row)) for row in await self._session.fetch(statement("crews"), namespaces)]

    async def drain_crew(self, epoch: int, workers: Sequence[UUID]) -> int | None:
        """Mark workers draining; return how many are alive, None where a claim took too long to wait for."""
        try:
            with _in_office():
                rows = await self._session.fetch(statement("drain_crew"), self.cluster, epoch, workers)
        except DatabaseError as error:
            if not _is_lock_timeout(error):
                raise
            return None
        drained: int = rows[0]["drained"]
        return drained

    async def watch_queues(self, epoch: int, watcher: UUID, queues: Sequence[str]) -> None:
        """Ask for notifications of exactly these queues."""
        with _in_office():
            await self._session.fetch(statement("watch_queues"), self.cluster, epoch, watcher, queues)

    async def maintain(self, watcher: UUID) -> None:
        """Do a share of the housekeeping, where no worker does."""
        await self._chores.fetch(statement("maintain"), watcher)

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()
        await self._chores.close()

    async def _patiently(
        self, table: Table, epoch: int, wanted: Wanted, *, most: int | None = None
    ) -> dict[str, Outcome]:
        try:
            return await self._call(table, epoch, [wanted], patient=True, most=most)
        except DatabaseError as error:
            if not _is_lock_timeout(error):
                raise
            return {wanted.name: Outcome.BUSY}

    async def _call(
        self, table: Table, epoch: int, wanted: Sequence[Wanted], *, patient: bool = False, most: int | None = None
    ) -> dict[str, Outcome]:
        key = "key" if table == "limits" else "name"
        rows = json.dumps(
            [
                {
                    key: each.name,
                    "expected": None if each.expected is None else each.expected.to_json(),
                    "changes": dict(each.changes),
                }
                for each in wanted
            ]
        )
        with _in_office():
            found = await self._session.fetch(statement(f"own_{table}"), self.cluster, epoch, rows, patient, most)
        return {row["name"]: Outcome(row["outcome"]) for row in found}


def _is_lock_timeout(error: DatabaseError) -> bool:
    return getattr(error.__cause__, "sqlstate", None) == _LOCK_TIMEOUT


@contextmanager
def _in_office() -> Iterator[None]:
    try:
        yield
    except DatabaseError as error:
        if getattr(error.__cause__, "sqlstate", None) == _OFFICE_LOST:
            raise OfficeLost(str(error)) from error
        raise


def _held_limit(row: Mapping[str, Any]) -> HeldRow:
    policy = LimitPolicy(**{name: value for name, value in row.items() if name != "owner"})
    return HeldRow(policy.key, policy.model_dump(), policy != LimitPolicy(key=policy.key), _owner(row["owner"]))


def _held_queue(row: Mapping[str, Any]) -> HeldRow:
    spec = QueueSpec(**{name: value for name, value in row.items() if name != "owner"})
    return HeldRow(spec.name, spec.model_dump(), spec != QueueSpec(name=spec.name), _owner(row["owner"]))


def _owner(text: str | None) -> Ownership | None:
    if text is None:
        return None
    try:
        return Ownership.model_validate_json(text)
    except ValidationError:
        # written by hand: somebody's all the same, and not ours to touch
        return Ownership(cluster=UNREADABLE, namespace="?", name="?", uid="?")
