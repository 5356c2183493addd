"""What a limit costs that does not bind: the same claims over keys with a policy and over keys without.

Bar: throughput within 3 % of no limit, as the median of 15 interleaved pairs. Jobs that name no key are told beside it.
"""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from bench.backlogs import Load
from bench.comparisons import interleave, site
from bench.forms import Form
from bench.rows import Row
from bench.samples import Timings, interval, ratio
from bench.stepping import Stepping

BAR = 0.97
PAIRS = 15


async def measure_unbinding(server_url: str, form: Form) -> list[Row]:
    """Return the rows of this module."""
    samples = form.pick(20, 60, 80)
    load = Load(jobs=form.pick(30_000, 60_000, 100_000))
    async with (
        site(server_url, "fair", load) as limited,
        site(server_url, "fair", replace(load, cap=None)) as unlimited,
        site(server_url, "fair", replace(load, keyless=True)) as keyless,
    ):
        sites = (limited, unlimited, keyless)
        steppings = [await Stepping.open(claimant) for claimant in sites]
        pairs = []
        for _ in range(PAIRS):
            connections = [claimant.connection for claimant in sites]
            pairs.append(await interleave(connections, [stepping.sample for stepping in steppings], samples))
        for stepping in steppings:
            await stepping.close()
    return [
        _row("keys without a policy", [(pair[0], pair[1]) for pair in pairs], BAR),
        _row("jobs without a key", [(pair[0], pair[2]) for pair in pairs], None),
    ]


def _row(what: str, pairs: Sequence[tuple[Timings, Timings]], bar: float | None) -> Row:
    rates = [ratio(others.both, limited.both) for limited, others in pairs]
    note = f"{len(pairs)} interleaved pairs; 95 % interval of the median {_interval(rates)}"
    if all(each.both_ran for pair in pairs for each in pair):
        running = [ratio(others.both_ran, limited.both_ran) for limited, others in pairs]
        note += f"; by the time that the server's process ran {median(running):.3f}, {_interval(running)}"
    return Row(
        name=f"jobs a second, claim and finish: keys with a limit that does not bind, beside {what}",
        value=median(rates),
        unit="ratio",
        bar=bar,
        sense=">=",
        samples=len(pairs),
        note=note,
    )


def _interval(values: Sequence[float]) -> str:
    low, high = interval(values)
    return f"{low:.3f} to {high:.3f}"
