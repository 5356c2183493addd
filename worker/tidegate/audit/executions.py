"""What the actors say about their runs, beside what the database says."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from tidegate.audit.histories import Event, EventKind, Run
from tidegate.audit.verdicts import Invariant, Violation


@dataclass(frozen=True, slots=True)
class Repeat:
    """An item whose actor got to its end more than once: at-least-once at work. ``workers``: by time."""

    item: str
    workers: tuple[str, ...]


def find_repeats(runs: Sequence[Run]) -> list[Repeat]:
    """Return the items that were done more than once."""
    return [Repeat(item, tuple(run.worker for run in done)) for item, done in _by_item(runs).items() if len(done) > 1]


def check_runs(events: Sequence[Event], runs: Sequence[Run]) -> Iterator[Violation]:
    """Compare outcomes with completed runs, for jobs that say what they are about.

    A job that succeeded under a worker's token must have been run to its end by that worker before: where it was not,
    the outcome of somebody else was accepted (I3), and where nobody did, the job is lost (I1).
    """
    done = _by_item(runs)
    items: dict[int, str] = {}
    names: dict[UUID, str] = {}
    for event in events:
        if event.kind is EventKind.WORKER and event.worker is not None and event.name is not None:
            names[event.worker] = event.name
        elif event.kind is EventKind.ENQUEUED and event.job is not None and event.item is not None:
            items[event.job] = event.item
        elif event.kind is EventKind.SUCCEEDED and event.job in items and event.worker is not None:
            yield from _check_success(event, names.get(event.worker, str(event.worker)), done.get(items[event.job], []))


def _check_success(event: Event, worker: str, done: list[Run]) -> Iterator[Violation]:
    before = {run.worker for run in done if run.at <= event.at}
    if not before:
        yield Violation(Invariant.LOST, event.seq, f"job {event.job} succeeded, and no worker had run it to its end")
    elif worker not in before:
        yield Violation(
            Invariant.TOKEN,
            event.seq,
            f"job {event.job} succeeded under the token of {worker}, but was run by {', '.join(sorted(before))}",
        )


def _by_item(runs: Sequence[Run]) -> dict[str, list[Run]]:
    done: dict[str, list[Run]] = defaultdict(list)
    for run in sorted(runs, key=_run_at):
        done[run.item].append(run)
    return done


def _run_at(run: Run) -> datetime:
    return run.at
