"""``python -m tests.postgres.soaking``: a minute of it, or with ``--controls`` one short soak for each planted fault.

Prints a table and writes ``build/faults/soak.json`` or ``build/faults/soak-controls.json``; 0 when every row holds.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from examples.demonstration.screens import figures_table
from tests.postgres.controls import LOUD, Control
from tests.postgres.soaking.crews import ROOT, Plan
from tests.postgres.soaking.runs import Soaked, soak
from tidegate.audit.figures import Figure, write_figures
from tidegate.store.embedded import temporary_server
from tidegate.store.engine import Engine
from tidegate.store.migrating import migrate

REPORTS = ROOT / "build" / "faults"
LOGS = REPORTS / "soak"

CONTROL_PLAN = Plan(seconds=10.0, drain_seconds=15.0, keys=6)
"""Few keys, so that workers meet at them."""


def main() -> int:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(prog="python -m tests.postgres.soaking", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--controls", action="store_true", help="plant faults instead, each of which must be reported")
    options = parser.parse_args()
    LOGS.mkdir(parents=True, exist_ok=True)
    console = Console(highlight=False)
    if options.controls:
        return _report(console, "soak-controls", [_control(console, control) for control in LOUD], {})
    plan = Plan(seconds=options.seconds, workers=options.workers, keys=options.keys, seed=options.seed)
    console.print(f"{plan.workers} workers, {plan.keys} keys, {plan.seconds:.0f} s, then until all jobs have ended")
    soaked = _run(plan)
    console.print(str(soaked.verdict))
    return _report(console, "soak", soaked.figures(), {"violations": [str(each) for each in soaked.verdict.violations]})


def _control(console: Console, control: Control) -> Figure:
    console.print(f"a database that {control.name}")
    verdict = _run(CONTROL_PLAN, control).verdict
    seen = sum(verdict.count(each) for each in control.breaks)
    note = "looked for: " + ", ".join(sorted(control.breaks))
    return Figure(f"reported: {control.name}", seen, "events", 1, ">=", verdict.starts, note)


def _report(console: Console, name: str, figures: list[Figure], details: dict[str, object]) -> int:
    report = REPORTS / f"{name}.json"
    console.print(figures_table(name, figures))
    write_figures(report, figures, details)
    console.print(f"the figures: {report.relative_to(ROOT)}; the workers' logs: {LOGS.relative_to(ROOT)}/")
    return 0 if all(figure.holds for figure in figures) else 1


def _run(plan: Plan, control: Control | None = None) -> Soaked:
    with _database() as url:
        return asyncio.run(soak(url, plan, LOGS, control))


@contextmanager
def _database() -> Iterator[str]:
    """Run a server with a migrated database for one soak."""
    with temporary_server() as server:
        asyncio.run(_migrate(server.url))
        yield server.url


async def _migrate(url: str) -> None:
    engine = Engine(url)
    try:
        await migrate(engine)
    finally:
        await engine.close()


if __name__ == "__main__":
    sys.exit(main())
