"""What one job costs from its enqueue to the history, in counts, beside a bare queue.

No load of the machine changes them, so they have bounds: rows read, pages touched, row versions made dead, which vacuum
has to remove. Bytes of log are told only: the first write to a page after a checkpoint logs all of it.
"""

from collections.abc import Sequence
from typing import Any

from bench.backlogs import Load, fill, fill_bare, hold_autovacuum, order_queue
from bench.bare import FULL, BareQueue
from bench.claimants import SLOTS, Claimant
from bench.costs import Costs, counted
from bench.databases import connection, database
from bench.forms import Form
from bench.rows import Row

KEYS = 1_000

BOUNDS = {"rows": 20.0, "dead": 9.0, "buffers": 120.0, "wal": None}
"""The most of each a job: rows read, row versions made dead, pages touched, bytes of log."""

UNITS = {"rows": "rows", "dead": "rows", "buffers": "pages", "wal": "bytes"}

NAMES = {
    "rows": "rows read",
    "dead": "row versions made dead",
    "buffers": "pages touched",
    "wal": "bytes of log written",
}


async def measure_per_job(server_url: str, form: Form) -> list[Row]:
    """Return the rows of this module."""
    turns = form.pick(50, 200, 200)
    async with database(server_url) as url, connection(url, synchronous_commit="off") as connected:
        await order_queue(connected, "fair")
        await hold_autovacuum(connected)
        await fill(connected, Load(jobs=20_000, keys=KEYS))
        await fill_bare(connected)
        ours = await _count(connected, await Claimant.open(connected), "tidegate", turns)
        bare = await _count(connected, await BareQueue.open(connected, SLOTS, FULL), "public", turns)
        return [_row(name, turns, ours, bare) for name in NAMES]


async def _count(connected: Any, side: Claimant | BareQueue, schema: str, turns: int) -> Sequence[Costs]:
    """Return what single enqueues cost in all, and what claims cost that hand in."""
    put, claimed = Costs(), Costs()
    for turn in range(turns + 1):
        keys = [f"key-{(turn * SLOTS + number) * 7 % KEYS}" for number in range(SLOTS)]
        async with counted(connected, schema) as costs:
            await side.put(keys)
        async with counted(connected, schema) as more:
            await side.turn(())
        if turn:  # the first has nothing to hand in, and meets all pages for the first time
            put, claimed = put + costs, claimed + more
    return put, claimed


def _row(name: str, turns: int, ours: Sequence[Costs], bare: Sequence[Costs]) -> Row:
    jobs = turns * SLOTS
    mine, theirs = ([getattr(costs, name) / jobs for costs in side] for side in (ours, bare))
    return Row(
        name=f"{NAMES[name]} a job, enqueued singly, claimed and finished in batches of {SLOTS}",
        value=sum(mine),
        unit=UNITS[name],
        bar=BOUNDS[name],
        samples=jobs,
        note=f"{mine[0]:.1f} by the enqueue; a bare queue {sum(theirs):.1f}, {theirs[0]:.1f} by the insert",
        timed=False,
    )
