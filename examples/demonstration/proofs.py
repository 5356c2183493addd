"""The proof: figures computed from the recorded history alone, each against its bar."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from examples.demonstration.scenes import BIG, EVERYBODY, LONGEST_SECONDS, SLOTS, SMALL, VENDOR, VICTIM, Played
from tidegate.audit import EventKind, Invariant, Verdict, judge
from tidegate.audit.executions import Repeat, find_repeats
from tidegate.audit.figures import Figure
from tidegate.audit.measures import highest_running, highest_starts, measure_waits

CAPS = {BIG: 2 * SLOTS, SMALL: 5, VENDOR: 4}
RATE, WINDOW = 100, timedelta(minutes=1)

RECOVERED_SECONDS = 15.0
"""A lease of 5 s, the rescuer's rhythm, and a loaded machine."""

FAIR_SECONDS = 3.0
"""The small tenant has 20 jobs of 60 ms, and a third of ten slots."""

FAIR_RATIO = 4.0
"""Times that the small tenant waits longer in default order, of which only the first ten seconds are watched."""


class Proof:
    """Everything that is claimed, and what stands behind it.

    Args:
        before: the comparison in default order.
        after: the run in fair order.
    """

    def __init__(self, before: Played, after: Played) -> None:
        self._before, self._after = before, after
        self._events = after.history.events
        self._runs = after.history.runs or ()
        self.verdict: Verdict = judge(after.history, drained=True)
        self.repeats: list[Repeat] = find_repeats(self._runs)
        self.figures = [*self._limits(), *self._jobs(), *self._fairness()]

    @property
    def holds(self) -> bool:
        """Tell whether everything is proven."""
        return all(figure.holds for figure in self.figures)

    def details(self) -> dict[str, object]:
        """Return what the rows do not say, for the file."""
        kinds = Counter(str(event.kind) for event in self._events)
        return {
            "events": dict(sorted(kinds.items())),
            "violations": [str(violation) for violation in self.verdict.violations],
            "done_twice": [{"item": repeat.item, "workers": repeat.workers} for repeat in self.repeats],
            "killed": VICTIM,
        }

    def _limits(self) -> Iterator[Figure]:
        running = highest_running(self._events)
        starts = Counter(event.key for event in self._events if event.kind is EventKind.STARTED)
        for key, cap in CAPS.items():
            yield Figure(f"{key}: highest running", running.get(key, 0), "jobs", cap, "<=", starts[key])
        highest = highest_starts(self._events, VENDOR, WINDOW)
        yield Figure(f"{VENDOR}: highest starts in any minute", highest, "starts", RATE, "<=", starts[VENDOR])
        yield Figure(
            f"{VENDOR}: from start 1 to start {RATE + 1}",
            round(self._to_start(RATE + 1), 3),
            "s",
            WINDOW.total_seconds(),
            ">=",
            1,
            "the last jobs waited for the window",
        )
        drift = self.verdict.count(Invariant.DRIFT)
        yield Figure("counts that drifted", drift, "counts", 0, "==", len(running), "a recount of every lane and key")
        yield Figure(
            "violations of any rule",
            len(self.verdict.violations),
            "events",
            0,
            "==",
            self.verdict.starts,
            "limits, tokens, rescues, run_at, attempts: see worker/tidegate/audit",
        )

    def _jobs(self) -> Iterator[Figure]:
        done = {run.item for run in self._runs}
        items = {event.item for event in self._events if event.kind is EventKind.ENQUEUED}
        succeeded = sum(event.kind is EventKind.SUCCEEDED for event in self._events)
        total = sum(EVERYBODY.values())
        lost = max(len(items - done), total - succeeded, total - len(items))
        yield Figure("jobs lost", lost, "jobs", 0, "==", total)
        elsewhere = [repeat for repeat in self.repeats if VICTIM not in repeat.workers]
        names = ", ".join(repeat.item for repeat in self.repeats)
        note = f"done twice because {VICTIM} died before it could say so: {names}" if names else "none was"
        yield Figure(f"jobs done twice but for {VICTIM}", len(elsewhere), "jobs", 0, "==", len(self._runs), note)
        murder = self._after.murder
        if murder is not None:
            rescued = [event.at for event in self._events if event.kind is EventKind.RESCUED]
            yield Figure(
                f"jobs rescued from {VICTIM}",
                len(rescued),
                "jobs",
                1,
                ">=",
                1,
                f"it ran {murder.jobs} when it was killed",
            )
            recovery = max(((at - murder.at).total_seconds() for at in rescued), default=LONGEST_SECONDS)
            yield Figure("from the kill to the rescue", round(recovery, 1), "s", RECOVERED_SECONDS, "<=", len(rescued))

    def _fairness(self) -> Iterator[Figure]:
        before = measure_waits(self._before.history.events, SMALL, self._before.end)
        after = measure_waits(self._events, SMALL, self._after.end)
        yield Figure(
            f"{SMALL}: longest wait, fair order",
            round(after.longest, 2),
            "s",
            FAIR_SECONDS,
            "<=",
            after.jobs,
            f"median {after.p50:.2f} s; behind 5,000 jobs of {BIG}",
        )
        yield Figure(
            f"{SMALL}: median wait, default / fair",
            round(before.p50 / max(after.p50, 0.001), 1),
            "ratio",
            FAIR_RATIO,
            ">=",
            before.jobs,
            f"default: median {before.p50:.1f} s, {before.unstarted} of {before.jobs} never started while we watched",
        )

    def _to_start(self, number: int) -> float:
        """Return the seconds from the vendor's first start to this one."""
        starts: list[datetime] = sorted(
            event.started_at
            for event in self._events
            if event.kind is EventKind.STARTED and event.key == VENDOR and event.started_at is not None
        )
        return (starts[number - 1] - starts[0]).total_seconds() if len(starts) >= number else 0.0
