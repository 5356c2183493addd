"""Queues: what a team may declare about one, and what is shown of it."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from tidegate.model.defaults import MAX_MAX_ATTEMPTS, MAX_PRIORITY, MIN_PRIORITY
from tidegate.model.durations import Duration
from tidegate.model.fields import OwnerColumn, Row
from tidegate.model.names import Name

Priority = Annotated[int, Field(strict=True, ge=MIN_PRIORITY, le=MAX_PRIORITY)]
"""Priority of a job; a higher one goes first."""

MaxAttempts = Annotated[int, Field(strict=True, ge=1, le=MAX_MAX_ATTEMPTS)]
"""Attempts of a job before it is dead."""


Timeout = Annotated[Duration, Field(gt=timedelta(0))]
"""Longest run of one attempt."""

Retention = Annotated[Duration, Field(ge=timedelta(0))]
"""How long a finished job is kept; zero keeps none."""


class QueueOrder(StrEnum):
    """Order in which a queue is claimed, as the database writes it; Queue objects write ``Priority`` and ``Fair``."""

    PRIORITY = "priority"
    """Higher priority first, then ``run_at``, then ``id``."""

    FAIR = "fair"
    """Within a priority, the group with the fewest running jobs for its weight."""


class QueueSpec(BaseModel):
    """Everything declared about one queue; None stands for the built-in default of ``tidegate.model.defaults``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    order: QueueOrder = QueueOrder.PRIORITY
    suspended: bool = False
    default_priority: Priority | None = None
    default_max_attempts: MaxAttempts | None = None
    default_timeout: Timeout | None = None
    keep_succeeded: Retention | None = None
    keep_dead: Retention | None = None

    def to_changes(self) -> dict[str, str | bool | int | float | None]:
        """The JSON object of SQL's ``set_queue``: every part, durations in seconds, null for the built-in default."""
        changes: dict[str, str | bool | int | float | None] = {
            "order": self.order.value,
            "suspended": self.suspended,
            "default_priority": self.default_priority,
            "default_max_attempts": self.default_max_attempts,
        }
        for field in ("default_timeout", "keep_succeeded", "keep_dead"):
            duration = getattr(self, field)
            changes[field] = None if duration is None else duration.total_seconds()
        return changes


class QueueStatus(Row):
    """A queue and its counts, from the views ``queue_status`` and ``queue_demand``.

    ``suspended`` is what was declared, ``held_by_hand`` what a person did. Of the ready jobs ``runnable`` may start
    within the limits and ``blocked`` are held back by them; in a suspended queue both are 0.
    """

    name: str
    order: Annotated[QueueOrder, Field(validation_alias=AliasChoices("order", "declared_order"))] = QueueOrder.PRIORITY
    suspended: bool = False
    held_by_hand: bool = False
    ready: int = 0
    running: int = 0
    runnable: int = 0
    blocked: int = 0
    scheduled: int = 0
    dead: int = 0
    workers: int = 0
    owner: OwnerColumn = None
