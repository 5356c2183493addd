"""What is shown of workers."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from tidegate.model.durations import Duration
from tidegate.model.fields import Row


class WorkerStatus(Row):
    """One row of the relation ``workers``: a process, its identity for this start, and its last signs of life."""

    id: UUID
    name: str
    queues: list[str]
    actors: list[str]
    slots: int
    fair: bool | None = None
    version: str | None = None
    namespace: str | None = None
    pod: str | None = None
    lease: Duration
    started_at: datetime
    seen_at: datetime
    contact_since: datetime | None = None
    draining_at: datetime | None = None
    alive: bool = True
