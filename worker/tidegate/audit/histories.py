"""What the recorder wrote down: events, completed runs, and the tables they must agree with."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID


class EventKind(StrEnum):
    """What happened to a job, a key's policy or a worker."""

    ENQUEUED = "enqueued"
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """A failed attempt that will be tried again."""
    RELEASED = "released"
    """Given back by its own worker, attempt not spent."""
    RESCUED = "rescued"
    """Taken from a worker that is gone."""
    DEAD = "dead"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    REMOVED = "removed"
    """The row is gone and nothing says why."""
    POLICY = "policy"
    WORKER = "worker"


FINAL_KINDS = frozenset(
    {EventKind.SUCCEEDED, EventKind.DEAD, EventKind.CANCELLED, EventKind.EXPIRED, EventKind.REMOVED},
)
"""After these the job is no longer in the table of jobs."""

END_KINDS = FINAL_KINDS | {EventKind.FAILED, EventKind.RELEASED, EventKind.RESCUED}
"""A job that ran runs no longer."""

OUTCOME_KINDS = frozenset({EventKind.SUCCEEDED, EventKind.FAILED, EventKind.RELEASED})
"""Only the holder of the job's token may cause these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One row of ``tidegate_audit.events``; a field that its kind does not have is None.

    Attributes:
        seq: order of the history; see the package for what it may be trusted for.
        at: the recorder's own clock.
        xid: the transaction that wrote it.
        name: the job's ``job_key``, or a worker's name.
        item: what an enqueued job is about: its argument ``item``, or its ``job_key``.
        worker: holder of the token, with ``claim``: of a start the new one, of an end the old one.
        attempt_left: the attempt count that an end left on the job.
        began: start of the transaction of a start.
        started_at: the instant that the claim chose for a start.
        running: jobs of the key that ran at the end of the transaction of a start, under the key's lock.
        max_running: with ``max_starts`` and ``rate_window``: the policy in force, of a start read under the key's lock.
        worker_ready: the worker of a start was alive and not draining when its transaction ended.
        held: the queue of a start was suspended.
        silent: time since the last heartbeat of a rescued worker, with its ``lease``.
    """

    seq: int
    at: datetime
    kind: EventKind
    xid: int = 0
    job: int | None = None
    queue: str | None = None
    key: str | None = None
    group_key: str | None = None
    name: str | None = None
    item: str | None = None
    worker: UUID | None = None
    claim: int | None = None
    attempt: int | None = None
    attempt_left: int | None = None
    max_attempts: int | None = None
    run_at: datetime | None = None
    expires_at: datetime | None = None
    began: datetime | None = None
    started_at: datetime | None = None
    running: int | None = None
    max_running: int | None = None
    max_starts: int | None = None
    rate_window: timedelta | None = None
    worker_ready: bool | None = None
    held: bool | None = None
    silent: timedelta | None = None
    lease: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One row of ``tidegate_audit.runs``: an actor got to its end.

    Attributes:
        item: what its job is about.
        worker: name of the worker that ran it.
        at: the database's clock.
    """

    item: str
    worker: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A row of ``tidegate.jobs`` in the snapshot that the history was read from."""

    id: int
    running: bool
    worker: UUID | None = None
    claim: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A row of ``tidegate.recount()``: a count that is kept beside the truth."""

    kind: str
    name: str
    kept: int
    truth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All that there is to judge.

    Attributes:
        events: by ``seq``.
        jobs: the jobs left in the table, read in the same snapshot; None skips the comparison.
        runs: completed runs, where the actors write them; None skips what needs them.
        drift: what ``recount()`` found.
    """

    events: Sequence[Event]
    jobs: Sequence[JobRow] | None = None
    runs: Sequence[Run] | None = None
    drift: Sequence[Drift] = field(default_factory=tuple)
