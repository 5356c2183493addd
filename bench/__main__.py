"""``python -m bench``: measure, write ``build/bench/*.json``, show a table, fail when a row does not hold."""

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from time import perf_counter

from rich.console import Console

from bench.blocked import measure_blocked
from bench.capacity import measure_capacity
from bench.claims import measure_claims
from bench.databases import server
from bench.enqueues import measure_enqueues
from bench.flushes import measure_flushes
from bench.forms import Form
from bench.idle import measure_idle
from bench.inner_statements import measure_inner_statements
from bench.later import measure_later
from bench.per_job import measure_per_job
from bench.rows import Row, show_rows, write_rows
from bench.scaling.tables import measure_scaling
from bench.shared_keys import measure_shared_keys
from bench.sizes import measure_sizes
from bench.steady import measure_steady
from bench.two_queues import measure_two_queues
from bench.unbinding import measure_unbinding
from bench.workers import measure_workers

SECTIONS: dict[str, Callable[[str, Form], Awaitable[list[Row]]]] = {
    "claims": measure_claims,
    "workers": measure_workers,
    "capacity": measure_capacity,
    "idle": measure_idle,
    "steady": measure_steady,
    "sizes": measure_sizes,
    "blocked": measure_blocked,
    "shared_keys": measure_shared_keys,
    "scaling": measure_scaling,
    "later": measure_later,
    "unbinding": measure_unbinding,
    "flushes": measure_flushes,
    "enqueues": measure_enqueues,
    "two_queues": measure_two_queues,
    "per_job": measure_per_job,
    "inner_statements": measure_inner_statements,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sections asked for; return the process's exit code."""
    options = _parse(arguments)
    console = Console(width=None if sys.stdout.isatty() else 150)
    rows: list[Row] = []
    start = perf_counter()
    with server(options.database_url) as url:
        for name in options.sections or SECTIONS:
            measured = asyncio.run(_measure(name, url, options.form))
            write_rows(options.output / f"{name}.json", measured)
            show_rows(console, name, measured)
            rows += measured
    counts_only = options.form is Form.QUICK and os.environ.get("CI") == "true"
    broken = [row for row in rows if row.holds is False and not (counts_only and row.timed)]
    console.print(f"{len(rows)} rows in {perf_counter() - start:.0f} s, written to {options.output}")
    if counts_only:
        console.print("Times are reported here, not judged: this machine may be busy. Counts are judged.")
    for row in broken:
        console.print(f"does not hold: {row.name}: {row.value:.4g} {row.unit}, bar {row.sense} {row.bar:g}")
    return 1 if broken else 0


async def _measure(name: str, url: str, form: Form) -> list[Row]:
    return await SECTIONS[name](url, form)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure Tidegate beside bare SQL, in one run, as ratios of medians.",
        epilog="With CI=true, --quick judges counts (statements, rows read, invariants) and only reports times.",
    )
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], metavar="section", help=", ".join(SECTIONS))
    forms = parser.add_mutually_exclusive_group()
    for form, what in (
        (Form.QUICK, "fewer samples, smaller sizes; less than five minutes in all"),
        (Form.FULL, "ten million jobs, ten minutes of steady load: some hours"),
    ):
        forms.add_argument(
            f"--{form.value}", dest="form", action="store_const", const=form, default=Form.PLAIN, help=what
        )
    parser.add_argument(
        "--database-url",
        default=os.environ.get("TIDEGATE_BENCH_URL"),
        metavar="URL",
        help="a server on which databases may be made; an embedded one with its data on disk unless given",
    )
    parser.add_argument("--output", type=Path, default=Path("build/bench"), metavar="FOLDER")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
