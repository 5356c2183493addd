"""Whether a claim costs the same whatever waits: more jobs, more keys, and how much more a larger claim costs.

Bars: at 10,000,000 jobs, and at 100,000 keys, at most 1.2 x the figure at 100,000 jobs and 1,000 keys; 32 slots at most
3 x the cost of 4. The smaller forms keep the proportions, and read the same rows.
"""

from bench.backlogs import Load
from bench.claimants import Claimant
from bench.comparisons import beside, compare, interleave, site
from bench.forms import Form
from bench.rows import Row

BAR = 1.2

SLOTS = (4, 32)
SLOTS_BAR = 3.0


async def measure_sizes(server_url: str, form: Form) -> list[Row]:
    """Return the rows of this module."""
    base = form.pick(Load(jobs=10_000, keys=100), *[Load(jobs=100_000, keys=1_000)] * 2)
    jobs = form.pick(200_000, 1_000_000, 10_000_000)
    keys = form.pick(10_000, 50_000, 100_000)
    samples = form.pick(40, 160, 240)
    rows: list[Row] = []
    for order in form.pick(("fair",), ("priority", "fair"), ("priority", "fair")):
        async with site(server_url, order, base) as small:
            async with site(server_url, order, Load(jobs=2 * keys, keys=keys)) as wide:
                rows += await compare(f"{order}, {keys:,} keys beside {base.keys:,}", wide, small, samples, BAR)
            rows += await _slots(small, order, form.pick(20, 80, 160))
    # both orders have the same index of jobs, so one of them tells
    async with (
        site(server_url, "fair", base) as small,
        site(server_url, "fair", Load(jobs=jobs, keys=base.keys)) as large,
    ):
        rows += await compare(f"fair, {jobs:,} jobs beside {base.jobs:,}", large, small, samples, BAR)
    return rows


async def _slots(where: Claimant, order: str, samples: int) -> list[Row]:
    few, many = [await Claimant.open(where.connection, slots) for slots in SLOTS]
    larger, smaller = await interleave([where.connection], [many.sample, few.sample], samples)
    name = f"of {SLOTS[1]} beside one of {SLOTS[0]}: {order}"
    return [
        beside(f"claim {name}", "claim", (larger, smaller), SLOTS_BAR),
        beside(f"claim and finish {name}", "both", (larger, smaller), SLOTS_BAR),
    ]
