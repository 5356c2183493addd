"""One key with thousands of lanes: a vendor whose four slots are shared by tenants, each with jobs of its own.

Bar: at ``max_running=4`` a claim and finish costs at most 2 x what it costs where all jobs of the key are one lane. The
key is always full, so each claim that frees a place has to find, among thousands of closed lanes, those that are next.
"""

from collections.abc import Sequence

from bench.backlogs import Load
from bench.claimants import Claimant
from bench.comparisons import beside, interleave, site
from bench.costs import counted
from bench.forms import Form
from bench.processors import Stopwatch
from bench.rows import Row
from bench.samples import Timings

CAP = 4
BAR = 2.0

ROWS = 300
"""The most rows that a claim may read that hands in four jobs of a full key and takes the next four."""


async def measure_shared_keys(server_url: str, form: Form) -> list[Row]:
    """Return the rows of this module."""
    lanes = form.pick(1_000, 5_000, 5_000)
    samples = form.pick(40, 160, 240)
    rows: list[Row] = []
    for order in form.pick(("fair",), ("priority", "fair"), ("priority", "fair")):
        async with (
            site(server_url, order, Load(jobs=4 * lanes, keys=1, groups=lanes, prefix="vendor-", cap=CAP)) as shared,
            site(server_url, order, Load(jobs=4 * lanes, keys=1, prefix="vendor-", cap=CAP)) as alone,
        ):
            for handed_in in (CAP, 1):
                rows += await _compared(order, lanes, handed_in, [shared, alone], samples)
    return rows


async def _compared(order: str, lanes: int, handed_in: int, sites: Sequence[Claimant], samples: int) -> list[Row]:
    connections = [claimant.connection for claimant in sites]
    watches = [await Stopwatch.open(each) for each in connections]
    sides = [Freed(claimant, handed_in, watch) for claimant, watch in zip(sites, watches, strict=True)]
    many, one = await interleave(connections, [side.sample for side in sides], samples)
    read = [await side.rows() for side in sides]
    name = f"{order}, one key with {lanes:,} lanes, max_running={CAP}, {handed_in} handed in"
    return [
        beside(f"claim and finish: {name}, beside one lane", "both", (many, one), BAR),
        Row(
            name=f"rows read by claim and finish: {name}",
            value=read[0],
            unit="rows",
            bar=ROWS,
            samples=1,
            note=f"{read[1]} with one lane",
            timed=False,
        ),
    ]


class Freed:
    """Frees so many places of a full key and takes them again, in one call."""

    def __init__(self, claimant: Claimant, places: int, watch: Stopwatch) -> None:
        self._claimant = claimant
        self._watch = watch
        self._places = places

    async def sample(self, timings: Timings) -> None:
        """Time one such call."""
        await self._fill()
        self._watch.start()
        await self._call()
        self._watch.lap((timings.both, timings.both_ran))

    async def rows(self) -> int:
        """Return how many rows one such call reads, at most, of ten."""
        most = 0
        for _ in range(10):
            await self._fill()
            async with counted(self._claimant.connection) as costs:
                await self._call()
            most = max(most, costs.rows)
        return most

    async def _fill(self) -> None:
        if not self._claimant.held:
            self._claimant.held = await self._claimant.claim()

    async def _call(self) -> None:
        held = self._claimant.held
        jobs = await self._claimant.claim(held[: self._places])
        if len(jobs) != self._places:
            raise RuntimeError(f"{self._places} places were freed, and a claim took {len(jobs)}")
        self._claimant.held = held[self._places :] + jobs
