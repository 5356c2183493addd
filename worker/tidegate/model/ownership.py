"""Who decides about a row: the column ``owner`` in full, as the operator writes it, and rows read with it.

What an object asked for its own end stands here too, because it is needed when the object is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from tidegate.model.defaults import DELETION_GRACE_PERIOD
from tidegate.model.durations import Seconds
from tidegate.model.fields import Json, Owner


class Ownership(Owner):
    """The column ``owner``: the object, the generation of it that was written, and what happens when it is gone."""

    cluster: str
    namespace: str
    name: str
    uid: str
    generation: int = 0
    grace: Seconds = DELETION_GRACE_PERIOD
    retain: bool = False
    orphaned_at: datetime | None = None

    def to_json(self) -> dict[str, Any]:
        """The JSON of the column, without what is not set."""
        return self.model_dump(mode="json", exclude_none=True)

    @property
    def ends_at(self) -> datetime | None:
        """When the row may be given up, by the database's clock; None while the object is there."""
        return None if self.orphaned_at is None else self.orphaned_at + self.grace


OwnershipColumn = Annotated[Ownership | None, Json]
"""The column ``owner``, decoded or as JSON text."""


@dataclass(frozen=True)
class HeldRow:
    """A limit key or a queue as it stands in the database.

    ``fields`` are those of the policy or the queue's settings; ``declared`` tells whether anybody set one of them. A
    row that was never made is no `HeldRow`.
    """

    name: str
    fields: Mapping[str, Any]
    declared: bool
    owner: Ownership | None


class Outcome(StrEnum):
    """What became of one row that an operator asked to change."""

    WRITTEN = "written"
    TAKEN = "taken"
    """Another owner stands there by now; nothing was changed."""
    BUSY = "busy"
    """Somebody holds the row; a patient call waits for it."""
    HELD_BACK = "held back"
    """The budget of rows that may be given up within a minute is spent."""
