"""One soak: workers that die, a load that changes its rules, and the judge at the end."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from examples.demonstration.processes import worker_processes
from tests.postgres.controls import Control, plant
from tests.postgres.soaking.crews import FREEZE_SECONDS, Crew, Fates, Plan
from tests.postgres.soaking.loads import Load
from tidegate.audit import EventKind, History, Invariant, Verdict, install, judge, read_history
from tidegate.audit.executions import find_repeats
from tidegate.audit.figures import Figure
from tidegate.audit.measures import count_tests
from tidegate.audit.verdicts import MEANING
from tidegate.store.engine import Engine

LEFT = "select count(*) from tidegate.jobs"

DEADLOCKS = "select deadlocks from pg_stat_database where datname = current_database()"

PLANTED = (
    "update tidegate.jobs set state = 'running', worker = $2, claim = 1, started_at = clock_timestamp() where id = $1"
)


@dataclass(slots=True)
class Soaked:
    """What a soak leaves for its report."""

    plan: Plan
    fates: Fates = field(default_factory=Fates)
    drained_in: float = 0.0
    deadlocks: int = 0
    history: History = field(default_factory=lambda: History(events=()))
    planted: int = 0

    @property
    def verdict(self) -> Verdict:
        """What the judge says."""
        return judge(self.history, drained=True)

    def figures(self) -> list[Figure]:
        """Return the rows of the report."""
        verdict = self.verdict
        return [
            *(
                Figure(f"soak {each}: {MEANING[each]}", verdict.count(each), "events", 0, "==", verdict.starts)
                for each in Invariant
            ),
            Figure("soak: deadlocks", self.deadlocks, "deadlocks", 0, "==", verdict.starts),
            Figure("soak: planted violations reported", self.planted, "events", 1, ">=", 1, "or all of this is void"),
            Figure("soak: until all jobs had ended", round(self.drained_in, 1), "s", self.plan.drain_seconds, "<=", 1),
            *self._workers(verdict),
            *self._amounts(verdict),
        ]

    def _workers(self, verdict: Verdict) -> Iterator[Figure]:
        plan, fates = self.plan, self.fates
        died, frozen, stopped = len(fates.killed), len(fates.frozen), len(fates.stopped)
        freezes = int(plan.seconds / (plan.freeze_every + FREEZE_SECONDS))
        yield Figure("soak: workers killed", died, "kills", int(plan.seconds / plan.kill_every) - 1, ">=", died)
        yield Figure("soak: workers frozen", frozen, "times", freezes, ">=", frozen)
        ended = len(fates.bad_exits)
        yield Figure("soak: workers that ended badly", ended, "workers", 0, "==", stopped, "; ".join(fates.bad_exits))
        repeats = find_repeats(self.history.runs or ())
        culprits = {*fates.killed, *fates.frozen}
        unexplained = [repeat.item for repeat in repeats if not culprits & set(repeat.workers)]
        yield Figure(
            "soak: jobs done twice by workers that lived",
            len(unexplained),
            "jobs",
            0,
            "==",
            verdict.jobs,
            f"{len(repeats)} were done twice in all, {', '.join(unexplained[:5]) or 'each by one killed or frozen'}",
        )

    def _amounts(self, verdict: Verdict) -> Iterator[Figure]:
        kinds = Counter(event.kind for event in self.history.events)
        plan = self.plan
        yield Figure("soak: starts judged", verdict.starts, "starts", 20 * plan.seconds, ">=", verdict.starts)
        yield Figure("soak: keys that were used", verdict.keys, "keys", plan.keys / 2, ">=", verdict.starts)
        yield Figure("soak: policy changes", kinds[EventKind.POLICY], "changes", plan.seconds, ">=", 1)
        caps, rates = count_tests(self.history.events)
        yield Figure("soak: starts that filled a max_running", caps, "starts", plan.seconds, ">=", verdict.starts)
        yield Figure("soak: starts that filled a max_starts", rates, "starts", plan.seconds, ">=", verdict.starts)
        yield Figure("soak: jobs rescued", kinds[EventKind.RESCUED], "jobs", 1, ">=", len(self.fates.killed))


async def soak(database_url: str, plan: Plan, logs: Path, control: Control | None = None) -> Soaked:
    """Run the plan on a migrated database, drain, judge, and plant a violation that the judge must see.

    Args:
        database_url: of the database.
        plan: what happens.
        logs: a folder that exists, for the workers' logs.
        control: a fault to plant before anything happens.
    """
    engine = Engine(database_url, max_size=16, application_name="tidegate soak")
    soaked = Soaked(plan)
    dice = random.Random(plan.seed)  # noqa: S311 - to be repeated, not to be guessed
    load = Load(engine, plan.keys, dice)
    try:
        await install(engine)
        if control is not None:
            async with engine.connect() as connection:
                await plant(connection, control)
        await load.prepare()
        with worker_processes() as workers:
            crew = Crew(workers, database_url, logs, plan=plan, fates=soaked.fates, dice=dice)
            for _ in range(plan.workers):
                crew.hire()
            loops = (load.produce, load.change_policies, load.meddle, crew.kill, crew.stop, crew.freeze)
            await _run_for(plan.seconds, [asyncio.create_task(loop()) for loop in loops])
            await load.settle()
            soaked.drained_in = await _drain(engine, plan.drain_seconds)
            await crew.dismiss()
        soaked.deadlocks = await engine.fetchval(DEADLOCKS)
        soaked.history = await read_history(engine, recount=True)
        soaked.planted = await _plant(engine)
    finally:
        await engine.close()
    return soaked


async def _run_for(seconds: float, tasks: list[asyncio.Task[None]]) -> None:
    """Let endless loops run for a while; one that ends before did so by an error, which is raised."""
    try:
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _drain(engine: Engine, longest: float) -> float:
    """Wait until no job is left, and return how long that took; the judge names what is stuck."""
    began = monotonic()
    while await engine.fetchval(LEFT) and monotonic() - began < longest:
        await asyncio.sleep(0.1)
    return monotonic() - began


async def _plant(engine: Engine) -> int:
    """Start two jobs of a key that allows one, past the claim; return how many violations of I4 the judge then sees."""
    async with engine.begin() as connection:
        await connection.execute("select tidegate.change_limit('planted', '{\"max_running\": 1}')")
    jobs = [
        await engine.fetchval("select id from tidegate.enqueue('planted', 'quick', limit_key => 'planted')")
        for _ in range(2)
    ]
    worker = await engine.fetchval("select id from tidegate.workers limit 1")
    for job in jobs:
        await engine.execute(PLANTED, job, worker)
    return judge(await read_history(engine)).count(Invariant.RUNNING)
