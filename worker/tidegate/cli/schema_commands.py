"""``tidegate schema``: bring the database to this release, and say where it stands."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from tidegate.cli.exits import ExitCode
from tidegate.cli.options import DatabaseUrl, Output
from tidegate.cli.printing import OutputFormat, print_line, print_lines, print_record
from tidegate.cli.running import run

if TYPE_CHECKING:
    from tidegate.store.engine import Engine
    from tidegate.store.migrating import MigrationReport, SchemaState

commands = typer.Typer(
    help="The schema tidegate: migrate it, or see where it stands.",
    epilog="Example:\n\n\b\n  tidegate schema status || tidegate schema migrate",
    no_args_is_help=True,
)


@commands.command(
    "migrate", epilog="Example:\n\n\b\n  tidegate schema migrate --database-url postgresql://owner@db/app"
)
def migrate_command(database_url: DatabaseUrl = None) -> None:
    """Apply what is missing, in one transaction. Safe while workers run, and when several start it at once."""

    async def call(engine: "Engine") -> "MigrationReport":
        from tidegate.store.migrating import migrate

        return await migrate(engine)

    report = run(call, database_url, any_schema=True)
    print_lines(f"applied {name}" for name in report.applied)
    print_line(f"schema: version {report.after}" + ("" if report.applied else ", nothing to do"))


@commands.command("status", epilog="Example:\n\n\b\n  tidegate schema status || tidegate schema migrate")
def status_command(database_url: DatabaseUrl = None, output: Output = OutputFormat.TABLE) -> None:
    """Tell the schema's version and this release's. The exit code is 5 unless they agree."""

    async def call(engine: "Engine") -> "SchemaState":
        from tidegate.store.migrating import schema_state

        return await schema_state(engine)

    state = run(call, database_url, any_schema=True)
    print_record(asdict(state), output)
    raise typer.Exit(ExitCode.OK if state.current else ExitCode.SCHEMA)
