"""What the claim must decide, in plain Python: no SQL, no lanes, no mail, only jobs and rules.

Written from the rules alone, job by job and slot by slot, however slow that is. Times are the database's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from typing import TypeVar

UNLIMITED = 1 << 30

V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job. ``token`` is (worker, claim) while it runs; ``state`` is ``over`` when its row is gone."""

    id: int
    queue: str
    actor: str
    key: str
    group: str
    priority: int
    run_at: datetime
    expires_at: datetime | None
    size: int
    state: str
    attempt: int
    max_attempts: int
    lost: int
    cancelled: bool
    token: tuple[str, int] | None = None

    def expired(self, now: datetime) -> bool:
        """Tell whether it is too late to start it."""
        return self.expires_at is not None and self.expires_at <= now


@dataclass(frozen=True, slots=True)
class Limit:
    """The policy of a key and the instants of its starts, as far as they may still count."""

    max_running: int | None = None
    max_starts: int | None = None
    window: timedelta | None = None
    weight: int | None = None
    marks: tuple[datetime, ...] = ()

    def counted(self, now: datetime) -> list[datetime]:
        """Return the starts in the half-open window (now - window, now], oldest first."""
        return [] if self.window is None else sorted(mark for mark in self.marks if mark > now - self.window)

    def room(self, running: int, now: datetime) -> int:
        """Return how many more may start now."""
        by_running = UNLIMITED if self.max_running is None else self.max_running - running
        by_starts = UNLIMITED if self.max_starts is None else self.max_starts - len(self.counted(now))
        return max(0, min(by_running, by_starts))


@dataclass(frozen=True, slots=True)
class Queue:
    """What is set for a queue."""

    order: str = "priority"
    suspended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A claim. ``rooms`` by actor; ``budget`` in bytes."""

    queue: str
    slots: int
    rooms: Mapping[str, int]
    budget: int | None = None
    fair: bool | None = None


@dataclass(slots=True)
class State:
    """All that is committed, or what one transaction sees of it."""

    jobs: dict[int, Job] = field(default_factory=dict)
    limits: dict[str, Limit] = field(default_factory=dict)
    queues: dict[str, Queue] = field(default_factory=dict)
    workers: dict[str, str] = field(default_factory=dict)
    """``alive``, ``draining`` or ``gone``."""

    def over(self, other: State) -> State:
        """Return what is seen of the other one with these changes in it."""
        return State(
            {**other.jobs, **self.jobs},
            {**other.limits, **self.limits},
            {**other.queues, **self.queues},
            {**other.workers, **self.workers},
        )

    def running(self, what: Callable[[Job], V]) -> Counter[V]:
        """Count running jobs by something."""
        return Counter(what(job) for job in self.jobs.values() if job.state == "running")

    def limit(self, key: str) -> Limit:
        """Return the limit of a key; none is one without any bound."""
        return self.limits.get(key, Limit())


def decide(state: State, ask: Ask, now: datetime) -> tuple[list[int], list[int]]:
    """Return the jobs that a claim starts, in order, and the scheduled ones that it makes ready without starting them.

    A claim makes no more due jobs ready than it has slots, and says so; it is repeated then, unless it has used a part
    of its budget.
    """
    decision = Decision(state, ask, now)
    due = sorted(
        (
            job
            for job in state.jobs.values()
            if job.queue == ask.queue and job.state == "scheduled" and job.run_at <= now
        ),
        key=lambda job: (job.run_at, job.id),
    )
    promoted: list[int] = []
    while decision.left > 0:
        batch, due = due[: decision.left], due[decision.left :]
        full = len(batch) == decision.left
        promoted += [job.id for job in batch]
        decision.fill(batch)
        if not full or (ask.budget is not None and decision.started):
            break
    return decision.started, [job_id for job_id in promoted if job_id not in decision.started]


class Decision:
    """One claim, slot by slot.

    Args:
        state: what the claim sees.
        ask: the claim.
        now: its instant.
    """

    def __init__(self, state: State, ask: Ask, now: datetime) -> None:
        queue = state.queues.get(ask.queue, Queue())
        self.started: list[int] = []
        self.left = 0 if queue.suspended else ask.slots
        self._state = state
        self._now = now
        self._fair = queue.order == "fair" if ask.fair is None else ask.fair
        self._budget = UNLIMITED if ask.budget is None else ask.budget
        self._actors = dict(ask.rooms)
        self._groups = Counter(
            job.group for job in state.jobs.values() if job.state == "running" and job.queue == ask.queue
        )
        running = state.running(lambda job: job.key)
        self._keys = {key: limit.room(running[key], now) for key, limit in state.limits.items() if key}
        self._waiting = [job for job in state.jobs.values() if job.queue == ask.queue and job.state == "ready"]

    def fill(self, more: Iterable[Job] = ()) -> None:
        """Start what fits, in order; a budget that the next job does not fit ends the claim."""
        self._waiting += more
        while self.left > 0:
            fitting = [job for job in self._waiting if self._fits(job)]
            if not fitting:
                return
            job = min(fitting, key=self._rank)
            alone = job.size > self._budget
            if alone and self.started:
                self.left = 0
                return
            self._start(job)
            if alone:
                self.left = 0

    def _fits(self, job: Job) -> bool:
        return (
            job.run_at <= self._now
            and not job.expired(self._now)
            and self._actors.get(job.actor, 0) > 0
            and self._keys.get(job.key, UNLIMITED) > 0
        )

    def _rank(self, job: Job) -> tuple[int, Fraction, datetime, int]:
        weight = self._state.limit(job.group).weight or 1
        share = Fraction(self._groups[job.group], weight) if self._fair else Fraction(0)
        return -job.priority, share, job.run_at, job.id

    def _start(self, job: Job) -> None:
        self._waiting.remove(job)
        self.started.append(job.id)
        self.left -= 1
        self._actors[job.actor] -= 1
        self._groups[job.group] += 1
        self._budget -= job.size
        if job.key in self._keys:
            self._keys[job.key] -= 1
