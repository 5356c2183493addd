"""What Limit and Queue objects declare, into Postgres without a cluster: read what is, decide, write what differs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tidegate.errors import LimitOwned, QueueOwned
from tidegate.model.fields import Owner
from tidegate.model.limits import LimitPolicy
from tidegate.model.queues import QueueSpec
from tidegate.store.engine import Engine
from tidegate.store.limits import set_limit
from tidegate.store.queues import set_queue
from tidegate.store.statements import statement

Declared = LimitPolicy | QueueSpec
"""What one object says about its row."""


class Action(StrEnum):
    """What applying one object does."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True)
class Change:
    """What applying one object does to its row: for each field that differs, the value before and after."""

    declared: Declared
    action: Action
    fields: Mapping[str, tuple[Any, Any]]

    @property
    def kind(self) -> str:
        """``limit`` or ``queue``."""
        return "limit" if isinstance(self.declared, LimitPolicy) else "queue"

    @property
    def name(self) -> str:
        """The limit key or the queue's name."""
        return _name(self.declared)


def decide(declared: Declared, stored: Mapping[str, Any] | None) -> Change:
    """Compare what is declared with the fields of the stored row; a field that is not declared becomes None."""
    before = stored or {}
    identity = {"key", "name"}
    fields = {
        field: (before.get(field), value)
        for field, value in declared.model_dump(exclude=identity).items()
        if before.get(field) != value
    }
    if stored is None:
        return Change(declared, Action.CREATED, fields)
    return Change(declared, Action.CHANGED if fields else Action.UNCHANGED, fields)


async def apply(
    engine: Engine, declared: Sequence[Declared], *, dry_run: bool = False, force: bool = False
) -> list[Change]:
    """Make the rows what is declared, in one transaction, and return what that changes, in the order given.

    Rows that nothing is declared about are left alone. Queues are written before keys and each in the order of their
    names: the lock order of the claim.

    Args:
        engine: the database.
        declared: at most one for each key and each queue.
        dry_run: decide and return, write nothing.
        force: write although a Kubernetes object owns the row; the operator will put it back.

    Raises:
        LimitOwned, QueueOwned: a Kubernetes object owns a row that would change, and `force` is not set.
    """
    async with engine.begin() as connection:
        limits = await _stored_limits(connection, [each.key for each in declared if isinstance(each, LimitPolicy)])
        queues = await _stored_queues(connection, [each.name for each in declared if isinstance(each, QueueSpec)])
        changes = []
        for each in declared:
            is_limit = isinstance(each, LimitPolicy)
            row = (limits if is_limit else queues).get(_name(each))
            change = decide(each, row.fields if row else None)
            if row and row.owner and change.fields and not force:
                raise (LimitOwned if is_limit else QueueOwned)(change.name, row.owner.model_dump())
            changes.append(change)
        if not dry_run:
            await _write(connection, changes)
    return changes


async def refuse_owned_limit(connection: Any, key: str) -> None:
    """Raise `LimitOwned` when a Kubernetes object owns the key's policy."""
    row = (await _stored_limits(connection, [key])).get(key)
    if row and row.owner:
        raise LimitOwned(key, row.owner.model_dump())


@dataclass(frozen=True)
class _Stored:
    fields: Mapping[str, Any]
    owner: Owner | None


async def _stored_limits(connection: Any, keys: Sequence[str]) -> dict[str, _Stored]:
    rows = await connection.fetch(statement("stored_limits"), keys)
    return {row["key"]: _Stored(LimitPolicy(**_without_owner(row)).model_dump(), _owner(row)) for row in rows}


async def _stored_queues(connection: Any, names: Sequence[str]) -> dict[str, _Stored]:
    rows = await connection.fetch(statement("stored_queues"), names)
    return {row["name"]: _Stored(QueueSpec(**_without_owner(row)).model_dump(), _owner(row)) for row in rows}


def _without_owner(row: Mapping[str, Any]) -> dict[str, Any]:
    return {column: value for column, value in row.items() if column != "owner"}


def _owner(row: Mapping[str, Any]) -> Owner | None:
    return None if row["owner"] is None else Owner.model_validate_json(row["owner"])


async def _write(connection: Any, changes: Iterable[Change]) -> None:
    needed = sorted((change for change in changes if change.action is not Action.UNCHANGED), key=lambda each: each.name)
    for change in needed:
        if isinstance(change.declared, QueueSpec):
            await set_queue(connection, change.name, change.declared.to_changes())
    for change in needed:
        if isinstance(change.declared, LimitPolicy):
            policy = change.declared.model_dump(exclude={"key"})
            await set_limit(connection, change.name, **policy)


def _name(declared: Declared) -> str:
    return declared.key if isinstance(declared, LimitPolicy) else declared.name
