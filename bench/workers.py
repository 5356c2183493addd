"""What one worker process brings, beside a bare loop in one process: jobs that do nothing, the same batch size."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass
from statistics import median
from typing import Any

from bench.backlogs import Load, fill, fill_bare, order_queue, vacuum
from bench.children import READY
from bench.databases import connection, database
from bench.forms import Form
from bench.rows import Row
from tidegate.app import DATABASE_URL_VARIABLE
from tidegate.model.defaults import SLOTS

KEYS = 1_000


@dataclass(frozen=True, slots=True)
class Case:
    """One number of slots, and so one batch size. ``jobs`` of a round and ``rounds`` are (quick, plain, full).

    ``rate`` is the least share of the bare loop's rate, None where it is only reported; ``statements`` are the most
    statements per finished job.
    """

    slots: int
    jobs: tuple[int, int, int]
    rounds: tuple[int, int, int]
    rate: float | None
    statements: float


CASES = (
    Case(slots=SLOTS, jobs=(1_500, 3_000, 3_000), rounds=(3, 11, 15), rate=0.4, statements=0.2),
    Case(slots=100, jobs=(5_000, 10_000, 10_000), rounds=(1, 5, 7), rate=None, statements=0.2),
    Case(slots=1, jobs=(300, 600, 600), rounds=(1, 3, 5), rate=None, statements=3),
)
"""The bar is on the default number of slots. With 100 the bare loop's two statements all but vanish beside its rows."""


async def start_child(url: str, kind: str, first: int, second: int = 0) -> Process:
    """Start one of ``bench.children`` on this database."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "bench.children", kind, str(first), str(second)),
        stdin=PIPE,
        stdout=PIPE,
        env=os.environ | {DATABASE_URL_VARIABLE: url},
    )


async def result_of(child: Process) -> dict[str, Any]:
    """Return what the child printed last.

    Raises:
        RuntimeError: it failed; what went wrong is on the terminal.
    """
    out, _ = await child.communicate()
    if child.returncode != 0:
        raise RuntimeError(f"a child of the benchmark ended with exit code {child.returncode}")
    result: dict[str, Any] = json.loads(out.decode().splitlines()[-1])
    return result


async def until_ready(child: Process) -> None:
    """Wait until the child says that it can be used.

    Raises:
        RuntimeError: it ended before.
    """
    if child.stdout is None or (await child.stdout.readline()).decode().strip() != READY:
        raise RuntimeError("the worker ended before it was ready")


async def measure_workers(server_url: str, form: Form) -> list[Row]:
    """Return the rows of this module."""
    rows: list[Row] = []
    for case in CASES:
        rows += await _throughput(server_url, case, form.pick(*case.jobs), form.pick(*case.rounds))
    return rows


async def _throughput(server_url: str, case: Case, jobs: int, rounds: int) -> list[Row]:
    batch = case.slots
    bare_rates: list[float] = []
    rates: list[float] = []
    statements: list[float] = []
    wrong = 0.0
    async with database(server_url) as url, connection(url) as connected:
        await order_queue(connected, "fair")
        # what a worker claims beyond the jobs that are counted comes on top
        await fill(connected, Load(jobs=rounds * (jobs + 20 * batch), keys=KEYS))
        await fill_bare(connected)
        for _ in range(rounds):
            await vacuum(connected)
            bare = await result_of(await start_child(url, "bare", jobs, batch))
            bare_rates.append(bare["jobs"] / bare["seconds"])
            ours = await result_of(await start_child(url, "worker", jobs, batch))
            rates.append((ours["jobs"] - batch) / ours["seconds"])
            statements.append(ours["statements"] / ours["jobs"])
            wrong += ours["lost"] + ours["failed"]
        drift = await connected.fetch("select * from tidegate.recount()")
    pairs = [mine / theirs for mine, theirs in zip(rates, bare_rates, strict=True)]
    return [
        Row(
            name=f"jobs a second of one worker, {_slots(batch)}, fair, {KEYS:,} limited keys",
            value=median(pairs),
            unit="ratio",
            bar=case.rate,
            sense=">=",
            samples=rounds,
            note=(
                f"{median(rates):,.0f} jobs/s beside {median(bare_rates):,.0f} of a bare loop; "
                f"{min(pairs):.2f} to {max(pairs):.2f} in rounds of {jobs:,}"
            ),
        ),
        Row(
            name=f"statements per finished job, {_slots(batch)}",
            value=max(statements),
            unit="statements",
            bar=case.statements,
            samples=rounds,
            note="everything that the process sent",
            timed=False,
        ),
        Row(
            name=f"jobs lost, failed or miscounted, {_slots(batch)}",
            value=wrong + len(drift),
            unit="jobs",
            bar=0,
            samples=rounds,
            note="by the worker's own counts and a recount of the database's",
            timed=False,
        ),
    ]


def _slots(number: int) -> str:
    return "1 slot" if number == 1 else f"{number} slots"
