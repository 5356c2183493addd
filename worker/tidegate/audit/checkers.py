"""The judge: one pass over a history, in linear time, without a database."""

from collections.abc import Iterator

from tidegate.audit.caps import RunningCaps
from tidegate.audit.executions import check_runs
from tidegate.audit.histories import Event, EventKind, History
from tidegate.audit.lives import JobLives
from tidegate.audit.rates import StartRates
from tidegate.audit.rescues import check_rescue
from tidegate.audit.verdicts import Invariant, Verdict, Violation


def judge(history: History, *, drained: bool = False) -> Verdict:
    """Decide the invariants of reliability.md from a history.

    Args:
        history: events in any order, and whatever else was recorded.
        drained: the workers had all the time they needed, so a job that is not over is stuck.
    """
    events = sorted(history.events, key=_place)
    starts = [event for event in events if event.kind is EventKind.STARTED]
    return Verdict(
        violations=list(_violations(history, events, drained=drained)),
        starts=len(starts),
        jobs=sum(event.kind is EventKind.ENQUEUED for event in events),
        keys=len({event.key for event in starts if event.key}),
    )


def _violations(history: History, events: list[Event], *, drained: bool) -> Iterator[Violation]:
    lives, caps, rates = JobLives(), RunningCaps(), StartRates()
    for event in events:
        yield from lives.feed(event)
        yield from caps.feed(event)
        yield from rates.feed(event)
        yield from check_rescue(event)
    jobs = None if history.jobs is None else {row.id: row for row in history.jobs}
    yield from lives.finish(jobs, drained=drained)
    if history.runs is not None:
        yield from check_runs(events, history.runs)
    for drift in history.drift:
        yield Violation(
            Invariant.DRIFT, 0, f"{drift.kind} of {drift.name or 'no key'} is kept as {drift.kept} and is {drift.truth}"
        )


def _place(event: Event) -> int:
    return event.seq
