"""What the worker asks of a store, and the plain values that cross that border.

``tidegate.store`` implements these protocols; ``tidegate.runtime`` uses them and knows no driver. Every call may raise
``DatabaseError`` (``DatabaseUnavailable`` where nothing is known of the statement's fate), and every call that acts for
a worker may raise `WorkerGone`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol
from uuid import UUID


class WorkerGone(Exception):  # noqa: N818 - says what happened, and never reaches a user
    """The database knows this worker no more: it was rescued, or its row was removed. Its jobs run elsewhere."""


class OfficeLost(Exception):  # noqa: N818 - says what happened, and never reaches a user
    """Another operator took office for this cluster id: nothing that this one still wants to write is accepted."""


@dataclass(frozen=True, slots=True)
class Registration:
    """One row of ``tidegate.workers``: a process start. ``fair`` None follows each queue's declared order."""

    worker: UUID
    name: str
    queues: list[str]
    actors: list[str]
    slots: int
    fair: bool | None
    lease: timedelta
    version: str
    namespace: str | None
    pod: str | None


class ClaimedJob(NamedTuple):
    """A job that a claim started. ``payload`` is JSON text; None where it is too large to come along (`payload_of`).

    ``bytes`` is the size of the payload in any case, as counted at enqueue. ``place`` is where it stands in the queue's
    order among the jobs of its claim: nothing else here tells that of a fair queue. ``lost`` workers vanished while
    they ran it.
    """

    id: int
    actor: str
    attempt: int
    max_attempts: int
    priority: int
    limit_key: str
    group_key: str
    headers: Mapping[str, str] | None
    bytes: int
    timeout: timedelta | None
    payload: str | None
    place: int
    lost: int


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """One call of ``tidegate.claim``: what finished (``done_*``, pairs of job and claim), then what is next.

    ``rooms`` are jobs at most of each of ``actors``, None for ``slots`` of any. All jobs together have ``budget`` bytes
    at most; a first one above it comes alone if it is at most ``largest``, and in any case, without its payload, if it
    is larger than ``refused_above``. None stands for no such bound, and for nothing that is refused.

    ``early`` lets the queue go before the disk has it: nothing of the reply may be acted on before `flush` returned.
    """

    worker: UUID
    claim: int
    queue: str
    slots: int
    actors: list[str]
    rooms: list[int] | None
    budget: int | None
    largest: int | None
    refused_above: int | None
    fair: bool | None
    done_jobs: list[int]
    done_claims: list[int]
    early: bool


@dataclass(frozen=True, slots=True)
class ClaimReply:
    """What a claim started, in no particular order.

    Attributes:
        jobs: those.
        next_at: when to ask again; None where nothing is known.
        wake: keys for `WorkerStorePort.wake`.
        stale: hand-ins that the token did not hold.
        locked: hand-ins that somebody else had locked: they must be sent again.
        cut: bytes of the job at which the claim ended because it did not fit; None where none did.
    """

    jobs: list[ClaimedJob]
    next_at: datetime | None = None
    wake: Sequence[str] = ()
    stale: Sequence[int] = ()
    locked: Sequence[int] = ()
    cut: int | None = None


class OutcomeReply(NamedTuple):
    """What became of outcomes: ids whose token no longer held the row, keys for `wake`, ids that are dead now."""

    stale: Sequence[int]
    wake: Sequence[str]
    dead: Sequence[int] = ()


class HeartbeatReply(NamedTuple):
    """The database's view of a worker; ``missing`` are held jobs whose row is not this token's any more.

    ``wake`` are keys for `WorkerStorePort.wake`.
    """

    alive: bool
    draining: bool
    seen_at: datetime
    cancelled: Sequence[int]
    missing: Sequence[int]
    returned: int
    wake: Sequence[str] = ()


class Rescued(NamedTuple):
    """A dead worker whose ``jobs`` went back to their queues; ``dead`` of them had lost too many workers.

    ``wake`` are keys for `WorkerStorePort.wake`.
    """

    worker: UUID
    jobs: int
    dead: int
    wake: Sequence[str]


class RescueReply(NamedTuple):
    """Whom a rescue found dead, and whether other workers serve the rescuer's queues."""

    rescued: list[Rescued]
    shared: bool


class HeartbeatPort(Protocol):
    """A connection of the heartbeat thread alone, used on that thread's event loop."""

    async def heartbeat(
        self, worker: UUID, jobs: list[int], claims: list[int], next_claim: int, *, unbroken: bool
    ) -> HeartbeatReply:
        """Renew the lease and compare what is held.

        Args:
            worker: the identity of this process start.
            jobs: every job whose outcome is not acknowledged yet.
            claims: their claim numbers.
            next_claim: the smallest claim number whose reply has not fully arrived.
            unbroken: no failed heartbeat since the last good one.
        """

    async def close(self) -> None:
        """Close the connection; the next heartbeat opens another."""


class WorkerStorePort(Protocol):
    """Everything else that a worker asks of the database; calls of one kind are made one at a time."""

    async def schema_problem(self) -> str | None:
        """Return what to do about a missing or older schema, or None when this release can work with it."""

    async def register_worker(self, registration: Registration) -> datetime:
        """Make the worker known, and return the database's time."""

    async def claim(self, request: ClaimRequest) -> ClaimReply:
        """Hand in what finished and start what is next, in one transaction."""

    async def flush(self) -> None:
        """Return when everything committed before, early claims included, is on disk."""

    async def ack(self, worker: UUID, jobs: list[int], claims: list[int]) -> OutcomeReply:
        """Finish jobs."""

    async def nack(
        self, worker: UUID, jobs: list[int], claims: list[int], errors: list[str], tracebacks: list[str], *, retry: bool
    ) -> OutcomeReply:
        """Record failed attempts. A text that the database cannot store is replaced by a placeholder."""

    async def release(
        self, worker: UUID, jobs: list[int], claims: list[int], delay: timedelta | None = None
    ) -> OutcomeReply:
        """Give jobs back to their queues, the attempt not spent."""

    async def sleep_on(self, worker: UUID, queues: list[str]) -> None:
        """Ask for notifications of exactly these queues."""

    async def probe(self, queues: list[str], actors: list[str]) -> dict[str, datetime | None]:
        """Return when a claim may find something, by queue; None where nothing is known."""

    async def wake(self, keys: list[str]) -> list[str]:
        """Tell the queues that wait for these keys; the keys that are still busy come back."""

    async def payload_of(self, job: int, worker: UUID, claim: int) -> str | None:
        """Return a large payload, or None where the token does not hold the job any more."""

    async def rescue(self, worker: UUID, queues: list[str]) -> RescueReply:
        """Take the jobs of dead workers back; the database checks whether this worker may judge."""

    async def maintain(self, worker: UUID) -> None:
        """Do a bounded share of the housekeeping, in short transactions."""

    async def leave(self, worker: UUID) -> int:
        """End this worker; what it still holds goes back unspent, and its number is returned."""

    def heartbeats(self) -> HeartbeatPort:
        """Return a port for the heartbeat thread, which connects on first use, on the loop that uses it."""

    async def close(self) -> None:
        """Close every connection."""


class ListenerPort(Protocol):
    """Notifications: hints that shorten a wait, never the truth."""

    async def listen(self, opened: Callable[[], None], heard: Callable[[str], None]) -> None:
        """Listen until the connection is lost.

        Args:
            opened: called once notifications arrive from here on.
            heard: called with each payload: a queue's name, or ``cancel:`` and a worker's id.

        Raises:
            DatabaseUnavailable: no connection could be made, or it was lost.
        """
