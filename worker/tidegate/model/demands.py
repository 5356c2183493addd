"""What the operator sees of queues and workers in one look: how much waits, what would start, and who runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID


@dataclass(frozen=True)
class QueueNumbers:
    """One queue, from the views ``queue_status`` and ``queue_demand``.

    ``blocked_by`` are the keys that hold most of its jobs back, each with ``key``, ``jobs`` and ``by``; ``workers`` are
    the live ones; ``runnable_since`` is a bound for how long the oldest runnable job waits.
    """

    name: str
    running: int = 0
    runnable: int = 0
    blocked: int = 0
    scheduled: int = 0
    dead: int = 0
    workers: int = 0
    held_by_hand: bool = False
    runnable_since: datetime | None = None
    blocked_by: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class CrewMember:
    """A live worker in a pod, and how many jobs it holds."""

    id: UUID
    namespace: str
    pod: str
    slots: int
    jobs: int
    draining: bool
