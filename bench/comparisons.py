"""Sides sampled in turn, so that whatever else the machine does meets all of them alike; and rows of the outcome."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

from bench.backlogs import Load, fill, hold_autovacuum, order_queue, vacuum
from bench.claimants import SLOTS, Claimant
from bench.costs import count_claim
from bench.databases import ACTOR, connection, database
from bench.rows import Row
from bench.samples import Timings, milliseconds, percentile, ratio, spread

VACUUM_EVERY = 80
"""Samples between two vacuums of all sides."""

SETTLING = 6
"""Samples left out after each vacuum, which makes all sides plan again."""

ROWS_READ = 80
"""The most rows that a claim of eight may read, whatever waits."""

Sampler = Callable[[Timings], Awaitable[None]]


async def interleave(connections: Sequence[Any], samplers: Sequence[Sampler], samples: int) -> list[Timings]:
    """Take so many samples of each side; who was last is first the next time."""
    timings = [Timings() for _ in samplers]
    taken = 0
    while taken < samples:
        for each in connections:
            await vacuum(each)
        block = min(VACUUM_EVERY, samples - taken)
        for index in range(SETTLING + block):
            targets = [Timings() for _ in samplers] if index < SETTLING else timings
            turn = list(zip(samplers, targets, strict=True))
            first = index % len(turn)
            for sampler, target in turn[first:] + turn[:first]:
                await sampler(target)
        taken += block
    return timings


@asynccontextmanager
async def site(
    server_url: str,
    order: str,
    *loads: Load,
    slots: int = SLOTS,
    actors: Sequence[str] = (ACTOR,),
    rooms: Sequence[int] | None = None,
) -> AsyncIterator[Claimant]:
    """Make a database with these jobs in it, and yield a claimant on it that does not wait for the disk."""
    async with database(server_url) as url, connection(url, synchronous_commit="off") as connected:
        await hold_autovacuum(connected)
        await order_queue(connected, order)
        await fill(connected, *loads)
        yield await Claimant.open(connected, slots, actors=actors, rooms=rooms)


async def compare(name: str, changed: Claimant, base: Claimant, samples: int, bar: float | None) -> list[Row]:
    """Return what a claim, and a claim with a hand-in, cost beside the same on another site, and the rows both read."""
    mine, theirs = await interleave([changed.connection, base.connection], [changed.sample, base.sample], samples)
    return [
        beside(f"claim of {changed.slots}: {name}", "claim", (mine, theirs), bar),
        beside(f"claim and finish of {changed.slots}: {name}", "both", (mine, theirs), bar),
        await rows_read(name, changed, base),
    ]


def beside(name: str, what: Literal["claim", "both"], sides: tuple[Timings, Timings], bar: float | None) -> Row:
    """Return one ratio of medians, with both sides and the spread told, and the ratio of what their processes ran."""
    ours, base = (getattr(side, what) for side in sides)
    ran = [getattr(side, f"{what}_ran") for side in sides]
    apart = f"; {ratio(*ran):.2f} by the time that the server's process ran" if all(ran) else ""
    undisturbed = percentile(ours, 0.25) / percentile(base, 0.25)
    return Row(
        name=name,
        value=ratio(ours, base),
        unit="ratio",
        bar=bar,
        samples=len(ours),
        note=(
            f"{milliseconds(ours):.3f} ms beside {milliseconds(base):.3f}; {spread(ours, base)}; "
            f"{undisturbed:.2f} at the lower quartiles{apart}"
        ),
    )


async def rows_read(name: str, claimant: Claimant, base: Claimant | None = None, *, bar: float = ROWS_READ) -> Row:
    """Count the rows that claims read, and the pages, beside those on another site."""
    costs = [await count_claim(claimant) for _ in range(10)]
    pages = f"{max(cost.buffers for cost in costs)} pages touched"
    if base is not None:
        others = [await count_claim(base) for _ in range(10)]
        pages += f", beside {max(cost.rows for cost in others)} rows and {max(cost.buffers for cost in others)} pages"
    return Row(
        name=f"rows read by one claim of {claimant.slots}: {name}",
        value=max(cost.rows for cost in costs),
        unit="rows",
        bar=bar,
        samples=len(costs),
        note=f"at least {min(cost.rows for cost in costs)}; {pages}",
        timed=False,
    )
