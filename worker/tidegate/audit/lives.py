"""The life of each job, replayed: I1 lost, I3 tokens, I7 allowed to start, I8 attempts."""

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from tidegate.audit.histories import END_KINDS, FINAL_KINDS, OUTCOME_KINDS, Event, EventKind, JobRow
from tidegate.audit.verdicts import Invariant, Violation

RUNNING_KINDS = OUTCOME_KINDS | {EventKind.RESCUED}
"""Only a running job can come to these."""


@dataclass(slots=True)
class Life:
    """Where a job stands. ``token`` is None while it waits."""

    queue: str | None
    name: str | None
    token: tuple[UUID | None, int | None] | None = None
    over: bool = False


class JobLives:
    """Follows every job from state to state. Memory: one small object a job; time: constant for each event."""

    def __init__(self) -> None:
        self.lives: dict[int, Life] = {}
        self._named: dict[tuple[str | None, str], int] = {}
        self._callers: dict[int, UUID] = {}

    def feed(self, event: Event) -> Iterator[Violation]:
        """Judge the next event."""
        if event.job is None:
            return
        if event.kind is EventKind.ENQUEUED:
            yield from self._enqueued(event, event.job)
            return
        life = self.lives.get(event.job)
        if life is None:
            yield Violation(Invariant.AUDIT, event.seq, f"job {event.job} {event.kind} and was never enqueued")
            life = self.lives[event.job] = Life(event.queue, None, (event.worker, event.claim))
        if event.kind is EventKind.STARTED:
            yield from self._started(event, life)
        elif event.kind in END_KINDS:
            yield from self._ended(event, life)

    def finish(self, jobs: dict[int, JobRow] | None, *, drained: bool) -> Iterator[Violation]:
        """Compare with the table of jobs: whatever is not over must still be there, as the history says."""
        for job, life in self.lives.items():
            if life.over:
                continue
            if drained:
                yield Violation(Invariant.LOST, 0, f"job {job} is stuck: it neither finished nor left")
            if jobs is not None:
                yield from _compare(job, life, jobs.get(job))
        for job in (jobs or {}).keys() - self.lives.keys():
            yield Violation(Invariant.AUDIT, 0, f"job {job} is in the table and not in the history")
        for job in (jobs or {}).keys() & self.lives.keys():
            if self.lives[job].over:
                yield Violation(Invariant.AUDIT, 0, f"job {job} is over in the history and still in the table")

    def _enqueued(self, event: Event, job: int) -> Iterator[Violation]:
        before = self.lives.get(job)
        if before is not None and not before.over:
            yield Violation(Invariant.TOKEN, event.seq, f"job {job} was enqueued again while it waited or ran")
        self.lives[job] = Life(event.queue, event.name)
        if event.name is not None:
            other = self._named.get((event.queue, event.name))
            if other is not None and other != job and not self.lives[other].over:
                yield Violation(
                    Invariant.TOKEN,
                    event.seq,
                    f"jobs {other} and {job} of queue {event.queue} have one job_key {event.name!r}",
                )
            self._named[event.queue, event.name] = job

    def _started(self, event: Event, life: Life) -> Iterator[Violation]:
        where = f"job {event.job} of key {event.key!r}"
        if life.over:
            yield Violation(Invariant.TOKEN, event.seq, f"{where} started after it was over")
        elif life.token is not None:
            yield Violation(Invariant.TOKEN, event.seq, f"{where} started while worker {life.token[0]} ran it")
        life.token, life.over = (event.worker, event.claim), False
        yield from self._one_caller(event, where)
        yield from _allowed(event, where)

    def _ended(self, event: Event, life: Life) -> Iterator[Violation]:
        where = f"job {event.job} {event.kind}"
        token = (event.worker, event.claim)
        if life.over:
            yield Violation(Invariant.TOKEN, event.seq, f"{where} after it was over")
        elif event.kind in RUNNING_KINDS and life.token is None:
            yield Violation(Invariant.TOKEN, event.seq, f"{where} and was not running")
        elif life.token is not None and token != life.token:
            yield Violation(Invariant.TOKEN, event.seq, f"{where} under token {token}, its start gave {life.token}")
        if event.kind in OUTCOME_KINDS:
            yield from self._one_caller(event, where)
        yield from _attempt_kept(event, where)
        if event.kind is EventKind.REMOVED:
            yield Violation(Invariant.LOST, event.seq, f"{where}: its row is gone without an outcome")
        life.token, life.over = None, event.kind in FINAL_KINDS

    def _one_caller(self, event: Event, where: str) -> Iterator[Violation]:
        """One transaction is one worker's: an outcome in it for a row that another worker holds ignored the token."""
        if event.worker is None or not event.xid:
            return
        caller = self._callers.setdefault(event.xid, event.worker)
        if caller != event.worker:
            yield Violation(
                Invariant.TOKEN, event.seq, f"{where}: held by {event.worker}, in a transaction of worker {caller}"
            )


def _allowed(event: Event, where: str) -> Iterator[Violation]:
    start = event.started_at or event.at
    if start > event.at:
        yield Violation(Invariant.EARLY, event.seq, f"{where} was dated {start - event.at} ahead of its start")
    if event.run_at is not None and start < event.run_at:
        yield Violation(Invariant.EARLY, event.seq, f"{where} started {event.run_at - start} before its run_at")
    if event.expires_at is not None and start >= event.expires_at:
        yield Violation(Invariant.EARLY, event.seq, f"{where} started {start - event.expires_at} after it expired")
    if event.held:
        yield Violation(Invariant.EARLY, event.seq, f"{where} started from the suspended queue {event.queue}")
    if event.worker_ready is False:
        yield Violation(Invariant.EARLY, event.seq, f"{where} started for worker {event.worker}, draining or not alive")
    if event.attempt is not None and event.max_attempts is not None and event.attempt > event.max_attempts:
        yield Violation(Invariant.ATTEMPTS, event.seq, f"{where} was attempt {event.attempt} of {event.max_attempts}")


def _attempt_kept(event: Event, where: str) -> Iterator[Violation]:
    given_back = event.kind in {EventKind.RELEASED, EventKind.RESCUED}
    if given_back and event.attempt is not None and event.attempt_left != event.attempt - 1:
        yield Violation(Invariant.ATTEMPTS, event.seq, f"{where}: attempt {event.attempt} was not given back")


def _compare(job: int, life: Life, row: JobRow | None) -> Iterator[Violation]:
    if row is None:
        yield Violation(Invariant.LOST, 0, f"job {job} is neither over nor in the table")
    elif row.running != (life.token is not None) or (row.running and life.token != (row.worker, row.claim)):
        state = "running" if row.running else "waiting"
        yield Violation(Invariant.AUDIT, 0, f"job {job} is {state} in the table, the history differs")
