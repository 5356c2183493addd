"""``tidegate apply``: the objects' YAML, straight into Postgres."""

from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.exits import ExitCode
from tidegate.cli.options import DatabaseUrl, Force, Output
from tidegate.cli.printing import OutputFormat, complain, print_lines, print_rows, shown
from tidegate.cli.running import run

if TYPE_CHECKING:
    from tidegate.store.engine import Engine
    from tidegate.store.manifests import Change


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(
        "apply",
        epilog="Example:\n\n\b\n"
        "  tidegate apply -f limits.yaml -f queues/ --dry-run\n"
        "  generate-limits | tidegate apply -f -",
    )(apply_command)


def apply_command(
    *,
    files: Annotated[
        list[str],
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE|DIR|-",
            help="Limit and Queue YAML; repeat it for several.",
            show_default=False,
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would change and write nothing.")] = False,
    force: Force = False,
    database_url: DatabaseUrl = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Write Limit and Queue objects into the database, without a cluster, and print what changes.

    Every document is checked before anything is written, and all of them are written in one transaction. What an
    object leaves out is removed from the database, as with kubectl apply; objects that are not given are left alone.
    Scaling of workers needs the operator: it is checked here and not used.
    """
    from tidegate.cli.manifest_files import read_manifests

    found = read_manifests(files)
    if found.problems:
        for problem in found.problems:
            complain(problem)
        raise typer.Exit(ExitCode.USAGE)

    async def call(engine: "Engine") -> "list[Change]":
        from tidegate.store.manifests import apply

        return await apply(engine, [placed.declared for placed in found.placed], dry_run=dry_run, force=force)

    changes = run(call, database_url)
    if output is OutputFormat.TABLE:
        print_lines(f"{_describe(change)}{' (dry run)' if dry_run else ''}" for change in changes)
    else:
        print_rows([_row(change) for change in changes], (), output)


def _describe(change: "Change") -> str:
    """Say in one line what changes: ``limit vendor-x: max_running 4 -> 6``."""
    if change.action == "created":
        parts = ", ".join(f"{field} {shown(after)}" for field, (_, after) in change.fields.items())
        what = f"created, {parts}" if parts else "created"
    elif change.action == "changed":
        what = ", ".join(f"{field} {shown(old)} -> {shown(new)}" for field, (old, new) in change.fields.items())
    else:
        what = "unchanged"
    return f"{change.kind} {change.name}: {what}"


def _row(change: "Change") -> dict[str, object]:
    fields = {field: {"before": before, "after": after} for field, (before, after) in change.fields.items()}
    return {"kind": change.kind, "name": change.name, "action": change.action, "changes": fields}
