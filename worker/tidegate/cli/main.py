"""The command ``tidegate``: its commands, and the one place where an error becomes a line and an exit code."""

import sys
from typing import Annotated, NoReturn

import typer

from tidegate.cli import (
    apply_commands,
    dev_commands,
    job_commands,
    limit_commands,
    queue_commands,
    schema_commands,
    worker_commands,
)
from tidegate.cli.exits import ExitCode, describe_exit_codes, exit_code_of
from tidegate.cli.printing import complain, print_line
from tidegate.cli.streams import replace_closed_streams
from tidegate.errors import TidegateError

_HELP = """Background jobs out of Postgres, under limits that hold over the whole cluster.

Every setting is a flag or a TIDEGATE_* variable; the flag wins. Each command has an example: tidegate COMMAND --help.
"""

_EPILOG = f"""Exit codes:

\b
{describe_exit_codes()}

Example:

\b
  tidegate dev                                  # a database of its own, in another terminal
  tidegate apply -f limits.yaml
  tidegate worker app:app --slots 8
"""

app = typer.Typer(
    name="tidegate",
    help=_HELP,
    epilog=_EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print_line(f"tidegate {_version()}")
        raise typer.Exit


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("tidegate")
    except PackageNotFoundError:
        return "(not installed)"


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass


worker_commands.add_to(app)
app.add_typer(limit_commands.commands, name="limits")
app.add_typer(queue_commands.commands, name="queues")
app.add_typer(job_commands.commands, name="jobs")
apply_commands.add_to(app)
app.add_typer(schema_commands.commands, name="schema")
dev_commands.add_to(app)


def main() -> NoReturn:
    """Run the command that the arguments name, and leave with its exit code."""
    replace_closed_streams()
    sys.exit(_run())


def _run() -> int:
    try:
        code = app(prog_name="tidegate", standalone_mode=False)
    except typer.TyperException as error:
        return _usage(error)
    except TidegateError as error:
        complain(str(error))
        return exit_code_of(error)
    except typer.Abort:
        return ExitCode.INTERRUPTED
    return int(code or ExitCode.OK)


def _usage(error: typer.TyperException) -> int:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "tidegate"
    message = error.format_message()
    if message.startswith("Usage:"):
        sys.stderr.write(f"{message}\n")
    else:
        complain(message[:1].lower() + message[1:].rstrip("."), f"{path} --help")
    return error.exit_code
