"""I2: nobody is rescued who was heard within the lease."""

from collections.abc import Iterator

from tidegate.audit.histories import Event, EventKind
from tidegate.audit.verdicts import Invariant, Violation


def check_rescue(event: Event) -> Iterator[Violation]:
    """Judge one event; only rescues say anything.

    The recorder reads the worker's row at the end of the rescue, which holds it FOR UPDATE: no heartbeat is in between.
    """
    if event.kind is not EventKind.RESCUED or event.silent is None or event.lease is None:
        return
    if event.silent < event.lease:
        yield Violation(
            Invariant.FALSE_RESCUE,
            event.seq,
            f"job {event.job} was taken from worker {event.worker}, heard {event.silent} ago; its lease: {event.lease}",
        )
