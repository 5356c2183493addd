"""What this process holds: every claimed job from its claim's reply to the acknowledgement of its outcome."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto
from uuid import UUID, uuid4

from tidegate.flow.executions import Lease
from tidegate.flow.intakes import Hold
from tidegate.model.messages import ReceivedMessage
from tidegate.ports import ClaimedJob
from tidegate.routing.actors import ActorData
from tidegate.runtime.lines import Line


class Fate(Enum):
    """How a message ended, and so which call tells the database."""

    DONE = auto()
    """The actor returned: ack."""

    FAILED = auto()
    """A failed attempt: nack."""

    REFUSED = auto()
    """A failure that no further attempt would mend: nack without retry."""

    GIVEN_BACK = auto()
    """Not started, or stopped by the worker and not by its own doing: release, the attempt not spent."""

    REJECTED = auto()
    """Too large for this process: release with a delay, the attempt not spent."""


class Stop(Enum):
    """Why the worker wants running code to end."""

    TIMED_OUT = auto()
    CANCELLED = auto()
    GIVE_BACK = auto()
    """Self-fence or shutdown: the job goes back unspent."""

    LOST = auto()
    """The job belongs to another worker by now: no outcome is sent."""


@dataclass(slots=True, eq=False)
class Held:
    """One message: a job under one token, compared by identity.

    Attributes:
        job: its id.
        claim: number of the claim that started it.
        actor: what runs it.
        line: its queue.
        message: what limits and policies are shown of it.
        timeout: longest run in seconds; None for any.
        payload: JSON text until its code has it; None too where it did not come along.
        hold: its share of what worker and channel may hold.
        lease: what it reserves to run.
        started: its code was started; before, it waits for its lease, its payload, or to be alone.
        in_thread: its code runs in a thread, which cannot be stopped.
        delay: how long a rejected one stays away.
        fate: how it ended.
        error: what to record of a failure.
        traceback: where it failed.
        stop: why it shall end.
        asked: every reason for which it was asked to end.
        task: what can be cancelled.
        timer: its timeout.
        lost: workers that vanished while they ran the job.
        alone: done once nothing else is held, for a message that must not run beside others; None for all others.
        resent: its outcome was sent before, and may have been stored.
    """

    job: int
    claim: int
    actor: ActorData
    line: Line
    message: ReceivedMessage
    timeout: float | None
    payload: str | None
    hold: Hold | None = None
    lease: Lease | None = None
    started: bool = False
    in_thread: bool = False
    delay: timedelta | None = None
    fate: Fate | None = None
    error: str = ""
    traceback: str = ""
    stop: Stop | None = None
    asked: set[Stop] = field(default_factory=set)
    task: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None
    lost: int = 0
    alone: asyncio.Future[None] | None = None
    resent: bool = False

    @classmethod
    def of(cls, claimed: ClaimedJob, claim: int, actor: ActorData, line: Line) -> "Held":
        """Make a message of a claimed job."""
        message = ReceivedMessage(
            id=claimed.id,
            queue=line.name,
            actor=claimed.actor,
            attempt=claimed.attempt,
            max_attempts=claimed.max_attempts,
            priority=claimed.priority,
            limit_key=claimed.limit_key,
            group_key=claimed.group_key,
            headers=claimed.headers,
            payload_bytes=claimed.bytes,
        )
        timeout = None if claimed.timeout is None else claimed.timeout.total_seconds()
        return cls(claimed.id, claim, actor, line, message, timeout, claimed.payload, lost=claimed.lost)

    @property
    def limited(self) -> bool:
        """It counts against a cluster-wide limit."""
        return self.message.limit_key != ""

    def let_go(self) -> None:
        """Give back all capacity that it holds or waits for, and forget its payload; nothing the second time."""
        self.payload = None
        if self.lease is not None:
            self.lease.release()
        if self.hold is not None:
            self.hold.release()


@dataclass(slots=True)
class Counts:
    """What happened in this process so far, in jobs."""

    claimed: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    """Stopped while they ran because somebody cancelled them."""
    given_back: int = 0
    rejected: int = 0
    """Too large for this process, so that they went back."""
    stale: int = 0
    """Outcomes whose token did not hold the job any more; nothing happened to those jobs."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a heartbeat compares with the database."""

    worker: UUID
    next_claim: int
    held: list[Held]


@dataclass(slots=True)
class Ledger:
    """Written by the main loop alone; the heartbeat thread only calls `snapshot` and `has_unstoppable`.

    Attributes:
        worker: this process start's identity; a new one after a rescue.
        registered_as: the same once the database was told of it, else None.
        next_claim: the smallest claim number whose reply has not fully arrived.
        held: every message whose outcome is not acknowledged.
        active: messages whose code runs or waits to; those that are lost are here and no longer in ``held``.
    """

    worker: UUID = field(default_factory=uuid4)
    registered_as: UUID | None = None
    next_claim: int = 1
    held: set[Held] = field(default_factory=set)
    active: set[Held] = field(default_factory=set)
    counts: Counts = field(default_factory=Counts)

    def snapshot(self, worker: UUID) -> Snapshot:
        """Return what to compare under this identity, from any thread.

        The claim number is read before the messages: a claim that arrives in between is then one whose reply is still
        awaited, and the database leaves its jobs alone. Copying a set is one step under the interpreter's lock.
        """
        next_claim = self.next_claim
        return Snapshot(worker, next_claim, list(self.held))

    def has_unstoppable(self) -> bool:
        """Tell, from any thread, whether a synchronous actor runs: a thread cannot be stopped."""
        return any(held.in_thread for held in list(self.active))
