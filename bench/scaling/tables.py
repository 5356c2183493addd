"""Every autoscaler over every trace, as rows with bars and as the table of docs/scaling.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bench.forms import Form
from bench.rows import Row
from bench.scaling.autoscalers import Fixed, Hpa, Keda, Tidegate
from bench.scaling.traces import Trace, named, random_traces, recorded
from bench.scaling.worlds import Autoscaler, World

MAXIMUM = 20
"""Most workers of any of them."""

AUTOSCALERS: dict[str, Callable[[], tuple[Autoscaler, int]]] = {
    "Tidegate": lambda: (Tidegate(MAXIMUM), 0),
    "KEDA on the backlog": lambda: (Keda(MAXIMUM), 0),
    "KEDA on queue_demand": lambda: (Keda(MAXIMUM, by_demand=True), 0),
    "HPA on busy slots": lambda: (Hpa(MAXIMUM), 1),
    "all workers, always": lambda: (Fixed(), MAXIMUM),
}
"""Each with the replicas that it starts from."""


@dataclass(frozen=True)
class Outcome:
    """What one autoscaler made of some traces; the wait is that of jobs without a limit, where there are any."""

    busy_ended: int
    jobs_cut: int
    for_blocked: int
    never_worked: int
    worker_hours: float
    p99_wait: float


BEGIN, END = "<!-- simulated -->\n", "<!-- /simulated -->\n"
"""Between these lines of docs/scaling.md stands the table."""


def outcome(name: str, traces: Iterable[Trace], hours: float) -> Outcome:
    """Run the traces under one autoscaler, each in a world of its own; waits are taken together."""
    worlds = []
    for trace in traces:
        autoscaler, replicas = AUTOSCALERS[name]()
        world = World(trace, replicas=replicas, maximum=MAXIMUM)
        world.run(autoscaler, most=4 * hours * 3600)
        worlds.append(world)
    waits = sorted(wait for world in worlds for wait in world.free_waits)
    waits = waits or sorted(wait for world in worlds for wait in world.waits)
    return Outcome(
        busy_ended=sum(world.busy_ended for world in worlds),
        jobs_cut=sum(world.jobs_cut for world in worlds),
        for_blocked=sum(world.for_blocked for world in worlds),
        never_worked=sum(world.never_worked for world in worlds),
        worker_hours=sum(world.pod_seconds for world in worlds) / 3600,
        p99_wait=waits[int(len(waits) * 0.99)],
    )


def groups(*, quick: bool) -> tuple[list[tuple[str, list[Trace]]], float]:
    """Return the traces, the random ones together, and the hours that they last."""
    hours, seeds = (0.5, 2) if quick else (1.0, 5)
    single = [(trace.name, [trace]) for trace in (recorded(), *named(hours))]
    return [*single, (f"{seeds} random mixtures", list(random_traces(hours, seeds)))], hours


async def measure_scaling(url: str, form: Form) -> list[Row]:  # noqa: ARG001 - no database has a part in it
    """Return the figures of every autoscaler; ours have to end no busy pod and start none for blocked work."""
    rows = []
    there, hours = groups(quick=form is Form.QUICK)
    for trace, traces in there:
        for name in AUTOSCALERS:
            found = outcome(name, traces, hours)
            bar = 0 if name == "Tidegate" else None
            for what, value in (
                ("busy pods ended", found.busy_ended),
                ("pods started for blocked work", found.for_blocked),
            ):
                rows.append(
                    Row(name=f"{what}: {name}, {trace}", value=value, unit="pods", bar=bar, samples=1, timed=False)
                )
            note = (
                f"{found.never_worked} pods never had a job, {found.jobs_cut} jobs cut; p99 wait {found.p99_wait:.0f} s"
            )
            rows.append(
                Row(
                    name=f"worker-hours: {name}, {trace}",
                    value=found.worker_hours,
                    unit="h",
                    samples=1,
                    note=note,
                    timed=False,
                )
            )
    return rows


COLUMNS = (
    "jobs",
    "autoscaler",
    "busy pods ended",
    "jobs cut",
    "pods for blocked work",
    "pods without a job",
    "worker-hours",
    "p99 wait",
)


def markdown() -> str:
    """Return the table of docs/scaling.md: the full run, the same each time."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---|---|--:|--:|--:|--:|--:|--:|"]
    there, hours = groups(quick=False)
    for trace, traces in there:
        for name in AUTOSCALERS:
            found = outcome(name, traces, hours)
            counts = (found.busy_ended, found.jobs_cut, found.for_blocked, found.never_worked)
            cells = [trace, name, *map(str, counts), f"{found.worker_hours:.1f}", f"{found.p99_wait:.0f} s"]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def document(text: str) -> str:
    """Return docs/scaling.md with the table of a run in it."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + markdown() + "\n" + END + rest.split(END)[1]
