"""What a claim costs beside the bare one: 100,000 ready jobs, 1,000 keys, each with a limit that does not bind.

Bars: one claim of 8 at most 2.2 x the bare claim of 8; claim and finish together at most 1.8 x bare claim and delete;
the same with 8 single enqueues before each claim at most 2.0 x bare insert, claim and delete. A flush costs both sides
the same and would hide the difference, so the bars are on the cases without.
"""

from dataclasses import dataclass, replace
from typing import Any

from bench.backlogs import Load, fill, fill_bare, hold_autovacuum, order_queue
from bench.bare import FULL, NARROW, BareQueue
from bench.claimants import DOCUMENTED, SLOTS, Claimant
from bench.comparisons import beside, interleave, rows_read
from bench.databases import ACTOR, connection, database
from bench.forms import Form
from bench.rows import Row
from bench.samples import Timings, ratio
from tidegate.store.statements import statement

JOBS = 100_000
KEYS = 1_000

CLAIM_BAR = 2.2
FINISH_BAR = 1.8
SINGLES_BAR = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One way to claim. ``samples`` is (quick, plain, full); 0 leaves it out."""

    what: str
    samples: tuple[int, int, int]
    flushed: bool = False
    narrow: bool = False
    actors: tuple[str, ...] = (ACTOR,)
    barred: bool = False


CASES = (
    Case(what="no flush on either side", samples=(80, 320, 480), barred=True),
    Case(what="no flush, the worker's few columns", samples=(40, 160, 240), narrow=True),
    Case(what="no flush, a worker of three actors", samples=(0, 80, 160), actors=("first", ACTOR, "last")),
    Case(what="flushed to disk on both sides", samples=(0, 80, 240), flushed=True),
)


async def measure_claims(server_url: str, form: Form) -> list[Row]:
    """Return the rows of this module for both orders, and the counts behind them."""
    rows: list[Row] = []
    for order in ("priority", "fair"):
        async with database(server_url) as url:
            await _fill(url, order, Load(jobs=JOBS, keys=KEYS))
            async with connection(url) as connected:
                rows.append(await rows_read(f"{order}, of {JOBS:,} jobs", await Claimant.open(connected)))
                rows.append(await _drift(connected, order))
            for case in CASES:
                if samples := form.pick(*case.samples):
                    rows += await _measured(url, order, case, samples)
            for enqueue in (False, True):
                rows.append(await _singles(url, order, form.pick(40, 160, 320), enqueue=enqueue))
    if form is not Form.QUICK:
        async with database(server_url) as url:
            await _fill(url, "fair", Load(jobs=JOBS, keys=KEYS, marked=True))
            rows += await _measured(url, "fair", Case(what="no flush, max_starts too", samples=(0, 0, 0)), 160)
    return rows


async def _fill(url: str, order: str, load: Load) -> None:
    async with connection(url) as connected:
        await order_queue(connected, order)
        await fill(connected, load)
        await fill_bare(connected)
        await hold_autovacuum(connected)


async def _measured(url: str, order: str, case: Case, samples: int) -> list[Row]:
    async with connection(url, synchronous_commit="on" if case.flushed else "off") as connected:
        bare = await BareQueue.open(connected, SLOTS, NARROW if case.narrow else FULL)
        claiming = statement("claim") if case.narrow else DOCUMENTED
        ours = await Claimant.open(connected, claiming=claiming, actors=case.actors)
        mine, theirs = await interleave([connected], [ours.sample, bare.sample], samples)
    bars = (CLAIM_BAR, FINISH_BAR) if case.barred else (None, None)
    name = f"{order}, {case.what}"
    return [
        beside(f"claim of {SLOTS} beside bare: {name}", "claim", (mine, theirs), bars[0]),
        beside(f"claim and finish of {SLOTS} beside bare: {name}", "both", (mine, theirs), bars[1]),
    ]


async def _singles(url: str, order: str, samples: int, *, enqueue: bool) -> Row:
    """Eight enqueues by hand, then a claim that hands in, beside eight inserts, a claim and a delete."""
    async with connection(url, synchronous_commit="off") as connected:
        bare, ours = await BareQueue.open(connected, SLOTS, FULL), await Claimant.open(connected, enqueue=enqueue)

        async def turn_of(side: BareQueue | Claimant, timings: Timings) -> None:
            keys = [f"key-{(len(timings.both) * SLOTS + n) * 7 % KEYS}" for n in range(SLOTS)]
            put, claimed = await side.turn(keys)
            timings.claim.append(claimed)
            timings.both.append(put + claimed)

        mine, theirs = await interleave([connected], [lambda t: turn_of(ours, t), lambda t: turn_of(bare, t)], samples)
        await ours.put_away(ours.held)
    how = "tidegate.enqueue" if enqueue else "INSERT"
    name = f"{SLOTS} single enqueues by {how}, claim and finish, beside bare: {order}"
    row = beside(name, "both", (mine, theirs), SINGLES_BAR)
    return replace(row, note=f"{row.note}; without the enqueues {ratio(mine.claim, theirs.claim):.2f}")


async def _drift(connected: Any, order: str) -> Row:
    drift = await connected.fetch("select * from tidegate.recount()")
    return Row(
        name=f"counts that disagree with the jobs: {order}",
        value=len(drift),
        unit="rows",
        bar=0,
        samples=1,
        note="each of them recounted",
        timed=False,
    )
