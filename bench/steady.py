"""Whether the claim stays as quick as it began: eight single enqueues, then claim and finish, over and over.

Bars: after 10 minutes with autovacuum only, a claim that hands in costs at most 1.3 x what it cost at first. With a
snapshot pinned for those 10 minutes, its slowdown is at most 0.4 x that of bare claim and delete under the same pin,
turn by turn in one loop. Dead index entries at the head of an ordered index are what makes queues slow; they need
minutes, so only the full form judges the pin.
"""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

from bench.backlogs import Load, fill, fill_bare, order_queue
from bench.bare import FULL, BareQueue
from bench.claimants import SLOTS, Claimant
from bench.databases import connection, database
from bench.forms import Form
from bench.rows import Row

KEYS = 1_000
BACKLOG = 20_000

BEAT = 5.0
"""Seconds between two heartbeats, as of a worker."""

SETTLING = 20
"""Turns left out: both sides plan and fill their caches."""

WINDOWS = 12
"""The start and the end are the first and the last of so many equal parts of the time."""

_DEAD = """
select sum(n_dead_tup)::bigint from pg_stat_user_tables
 where schemaname = 'tidegate' and relname <> 'history' and $1 = 'tidegate' or schemaname = 'public' and $1 = 'public'
"""


@dataclass(frozen=True, slots=True)
class Slowdown:
    """What the loop showed: milliseconds at the start and at the end of both sides, and the dead rows left."""

    ours: tuple[float, float]
    bare: tuple[float, float]
    dead: tuple[int, int]
    turns: int

    @property
    def factor(self) -> float:
        """How many times the start's cost ours is at the end."""
        return self.ours[1] / self.ours[0]

    @property
    def bare_factor(self) -> float:
        """The same of the bare side."""
        return self.bare[1] / self.bare[0]

    def note(self) -> str:
        """Both sides in absolute figures."""
        return (
            f"{self.ours[0]:.2f} -> {self.ours[1]:.2f} ms = {self.factor:.2f} x beside "
            f"{self.bare[0]:.2f} -> {self.bare[1]:.2f} = {self.bare_factor:.2f} x of bare; "
            f"{self.turns:,} turns of {SLOTS}; dead rows at the end {self.dead[0]:,} beside {self.dead[1]:,}"
        )


async def measure_steady(server_url: str, form: Form) -> list[Row]:
    """Return the rows of this module."""
    seconds = form.pick(8, 60, 600)
    rows = []
    for pinned in (False, True):
        async with database(server_url) as url:
            seen = await _load(url, seconds, pinned=pinned)
        rows.append(
            Row(
                name=f"slowdown after {seconds} s with a snapshot pinned, beside bare's"
                if pinned
                else f"claim and finish after {seconds} s of steady load, autovacuum only, beside the start",
                value=seen.factor / seen.bare_factor if pinned else seen.factor,
                unit="ratio",
                bar=(0.4 if form is Form.FULL else None) if pinned else 1.3,
                samples=seen.turns,
                note=seen.note(),
            )
        )
    return rows


async def _load(url: str, seconds: float, *, pinned: bool) -> Slowdown:
    async with connection(url, synchronous_commit="off") as connected:
        await order_queue(connected, "fair")
        await fill(connected, Load(jobs=BACKLOG, keys=KEYS))
        await fill_bare(connected)
        ours, bare = await Claimant.open(connected), await BareQueue.open(connected, SLOTS, FULL)
        turns: list[tuple[float, float, float]] = []
        async with _pin(url) if pinned else _nothing():
            start = perf_counter()
            beaten = start
            while (now := perf_counter()) - start < seconds:
                if now - beaten > BEAT:
                    await ours.beat()
                    beaten = now
                keys = [f"key-{random.randrange(KEYS)}" for _ in range(SLOTS)]  # noqa: S311
                mine = (await ours.turn(keys))[1]
                turns.append((now - start, mine, (await bare.turn(keys))[1]))
            dead = [await connected.fetchval(_DEAD, schema) for schema in ("tidegate", "public")]
    turns = turns[SETTLING:]
    first = [turn for turn in turns if turn[0] < seconds / WINDOWS]
    last = [turn for turn in turns if turn[0] > seconds - seconds / WINDOWS]
    return Slowdown(
        ours=(_cost(first, 1), _cost(last, 1)),
        bare=(_cost(first, 2), _cost(last, 2)),
        dead=(dead[0], dead[1]),
        turns=len(turns),
    )


def _cost(turns: list[tuple[float, float, float]], side: int) -> float:
    return median(turn[side] for turn in turns) * 1e3


@asynccontextmanager
async def _pin(url: str) -> AsyncIterator[Any]:
    """Hold a snapshot open, as a long report of an application does."""
    async with connection(url) as connected, connected.transaction(isolation="repeatable_read"):
        await connected.fetchval("select count(*) from tidegate.queues")
        yield connected


@asynccontextmanager
async def _nothing() -> AsyncIterator[None]:
    yield
