"""What jobs for later cost those that are ready: as long as they wait, and when all of them fall due at one instant.

Bars: with 2,000,000 jobs scheduled beside it, and with the same fallen due at one instant, a claim costs at most 1.2 x
what it costs without them, and no claim more than 3 x. Nobody keeps house meanwhile: the claims themselves promote what
is due.
"""

from datetime import timedelta
from statistics import median
from typing import Any

from bench.backlogs import Load, vacuum
from bench.claimants import Claimant
from bench.comparisons import beside, compare, interleave, rows_read, site
from bench.forms import Form
from bench.rows import Row
from bench.stepping import Stepping

BAR = 1.2
WORST_BAR = 3.0

DUE_ROWS = 250
"""The most rows that a claim of eight may read that promotes eight and folds what it promoted."""

# The rows change, not the clock. What the queue knows of its first job for later is put back to what it knew at first.
_FALL_DUE = "update tidegate.jobs set run_at = clock_timestamp() where state = 'scheduled'"
_FORGET = "update tidegate.queues set due_at = '-infinity', due_from = '-infinity'"


async def measure_later(server_url: str, form: Form) -> list[Row]:
    """Return the rows of this module."""
    later = form.pick(50_000, 300_000, 2_000_000)
    ready = Load(jobs=form.pick(10_000, 50_000, 100_000))
    samples = form.pick(40, 160, 320)
    rows: list[Row] = []
    async with (
        site(server_url, "fair", ready) as base,
        site(server_url, "fair", ready, Load(jobs=later, age=timedelta(days=-1))) as beside,
    ):
        rows += await compare(f"{later:,} jobs scheduled for later beside it", beside, base, samples, BAR)
        await _fall_due(beside.connection)
        rows += await _due(f"{later:,} jobs due at one instant beside it", beside, base, samples)
    return rows


async def _fall_due(connected: Any) -> None:
    await connected.execute(_FALL_DUE)
    await connected.execute(_FORGET)
    await vacuum(connected, analyze=True)


async def _due(name: str, changed: Claimant, base: Claimant, samples: int) -> list[Row]:
    mine, theirs = await Stepping.open(changed), await Stepping.open(base)
    connections = [changed.connection, base.connection]
    ours, others = await interleave(connections, [mine.sample, theirs.sample], samples)
    rows = [beside(f"claim and finish of {changed.slots}: {name}", "both", (ours, others), BAR)]
    judged, normal = ours.both_ran or ours.both, others.both_ran or others.both
    rows.append(
        Row(
            name=f"slowest claim and finish, beside the median without: {name}",
            value=max(judged) / median(normal),
            unit="ratio",
            bar=WORST_BAR,
            samples=len(judged),
            note=(
                f"of the server process's time, {max(judged) * 1e3:.1f} ms beside {median(normal) * 1e3:.2f}, and "
                f"{max(normal) * 1e3:.1f} at worst; by the clock {max(ours.both) * 1e3:.1f} ms, "
                f"{max(others.both) * 1e3:.1f} without"
            ),
        )
    )
    for stepping in (mine, theirs):
        await stepping.close()
    rows.append(await rows_read(name, changed, base, bar=DUE_ROWS))
    return rows
