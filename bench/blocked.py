"""Whether what cannot start delays what can: a saturated key, many of them, a full actor, before the first free job.

Bars: 1,000,000 jobs of one saturated key before the free ones, 10,000 saturated keys before one free key, and 1,000,000
jobs of a full actor: at most 1.2 x the figure with nothing before them. While the gates of the 10,000 keys close, no
claim takes more than 10 ms of its server process's time.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from time import perf_counter

from bench.backlogs import Load, vacuum
from bench.claimants import SLOTS, Claimant
from bench.comparisons import compare, site
from bench.costs import counted
from bench.databases import ACTOR
from bench.forms import Form
from bench.processors import running_time
from bench.rows import Row

BAR = 1.2

CLOSING_BAR = 10.0
"""Milliseconds of the slowest claim while gates close."""

CLOSING_ROWS = 1_000
"""The most rows that one claim may read while gates close: it looks again a bounded number of times."""

FULL_ACTOR = "full"

FREE = Load(jobs=6_000, keys=1, prefix="free-", age=timedelta(minutes=30))
"""Enough for all samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """What the claims did that closed gates: seconds and rows read of each."""

    seconds: list[float]
    running: list[float]
    rows: list[int]


async def measure_blocked(server_url: str, form: Form) -> list[Row]:
    """Return the rows of this module."""
    many = form.pick(100_000, 500_000, 1_000_000)
    keys = form.pick(2_000, 10_000, 10_000)
    samples = form.pick(40, 120, 160)
    one_key = Load(jobs=many, keys=1, prefix="full-", cap=1)
    full_keys = Load(jobs=5 * keys, keys=keys, prefix="full-", cap=1)
    actor = Load(jobs=many, keys=1, prefix="busy-", actor=FULL_ACTOR)
    rows: list[Row] = []
    for order in form.pick(("fair",), ("priority", "fair"), ("priority", "fair")):
        async with site(server_url, order, FREE) as free:
            async with site(server_url, order, one_key, FREE) as blocked:
                await _saturate(blocked, 1)
                name = f"{order}, {many:,} jobs of one saturated key before it"
                rows += await compare(name, blocked, free, samples, BAR)
            async with site(server_url, order, full_keys, FREE) as blocked:
                rows += _closing(order, keys, await _saturate(blocked, keys))
                await vacuum(blocked.connection)
                name = f"{order}, {keys:,} saturated keys before it"
                rows += await compare(name, blocked, free, samples, BAR)
        both, rooms = (FULL_ACTOR, ACTOR), (0, SLOTS)
        async with (
            site(server_url, order, replace(FREE, keys=100), actors=both, rooms=rooms) as free,
            site(server_url, order, actor, replace(FREE, keys=100), actors=both, rooms=rooms) as blocked,
        ):
            name = f"{order}, {many:,} jobs of a full actor before it"
            rows += await compare(name, blocked, free, samples, BAR)
    return rows


async def _saturate(claimant: Claimant, keys: int) -> Closing:
    """Start the one job that each full key may run, then claim until a claim finds nothing in its way."""
    first = await Claimant.open(claimant.connection, keys)
    if len(await first.claim()) != keys:
        raise RuntimeError(f"a claim did not start one job of each of {keys} keys")
    backend = await claimant.connection.fetchval("select pg_backend_pid()")
    closing = Closing(seconds=[], running=[], rows=[])
    jobs: list[int] = []
    while len(jobs) < SLOTS:
        async with counted(claimant.connection) as costs:
            ran, start = running_time(backend), perf_counter()
            jobs = await claimant.claim()
            closing.seconds.append(perf_counter() - start)
            ran_then = running_time(backend)
        closing.rows.append(costs.rows)
        if ran is not None and ran_then is not None:
            closing.running.append(ran_then - ran)
        await claimant.put_away(jobs)
    return closing


def _closing(order: str, keys: int, seen: Closing) -> list[Row]:
    judged = seen.running or seen.seconds
    return [
        Row(
            name=f"slowest claim while the gates of {keys:,} keys close: {order}",
            value=max(judged) * 1e3,
            unit="ms",
            bar=CLOSING_BAR,
            samples=len(judged),
            note=(
                f"of its server process's time; by the clock {max(seen.seconds) * 1e3:.1f} ms, "
                f"{sum(seen.seconds):.2f} s in all"
            ),
        ),
        Row(
            name=f"rows read by one claim while gates close: {order}",
            value=max(seen.rows),
            unit="rows",
            bar=CLOSING_ROWS,
            samples=len(seen.rows),
            note=f"{keys:,} gates in {len(seen.rows)} claims",
            timed=False,
        ),
    ]
