"""``tidegate jobs``: look at single jobs, run dead ones again, stop what should not run."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli.exits import ExitCode, exit_code_of
from tidegate.cli.options import DatabaseUrl, Output
from tidegate.cli.printing import Column, OutputFormat, complain, print_line, print_record, print_rows
from tidegate.cli.running import run
from tidegate.errors import InvalidInput, TidegateError

if TYPE_CHECKING:
    from tidegate.model.jobs import JobStatus
    from tidegate.store.engine import Engine

commands = typer.Typer(
    help="Jobs: look at them, run dead ones again, cancel.",
    epilog="Example:\n\n\b\n  tidegate jobs list --state dead\n  tidegate jobs retry 17",
    no_args_is_help=True,
)

MAX_ID = 2**63 - 1
"""Highest job id: a bigint."""

Ids = Annotated[list[int], typer.Argument(metavar="ID...", min=1, max=MAX_ID, help="Job ids.", show_default=False)]

_COLUMNS = (
    Column("ID", "id", number=True),
    Column("STATE", "state"),
    Column("QUEUE", "queue"),
    Column("ACTOR", "actor"),
    Column("LIMIT KEY", "limit_key"),
    Column("PRIORITY", "priority", number=True),
    Column("ATTEMPT", "attempt_summary", number=True),
    Column("RUN AT", "run_at"),
    Column("ERROR", "error_summary"),
)


@commands.command("list", epilog="Example:\n\n\b\n  tidegate jobs list --state dead --queue mail --limit 20")
def list_command(
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="Only this state; repeat it for several."),
    ] = None,
    queue: Annotated[str | None, typer.Option(metavar="NAME", help="Only this queue.")] = None,
    actor: Annotated[str | None, typer.Option(metavar="NAME", help="Only this actor.")] = None,
    limit_key: Annotated[str | None, typer.Option(metavar="KEY", help="Only this limit key.")] = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=100_000, help="At most this many, the newest first.")
    ] = 50,
    database_url: DatabaseUrl = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """List jobs, the newest first: waiting, running, and finished ones while the history keeps them.

    STATE is scheduled, ready, running, succeeded, dead, cancelled or expired.
    """
    from tidegate.model.jobs import JobState

    for each in state or ():
        if each not in set(JobState):
            raise InvalidInput("--state", f"must be one of {', '.join(JobState)}; got {each!r}")

    async def call(engine: "Engine") -> "list[JobStatus]":
        from tidegate.store.jobs import list_jobs

        return list(await list_jobs(engine, states=state, queue=queue, actor=actor, limit_key=limit_key, limit=limit))

    rows = [status.model_dump() for status in run(call, database_url)]
    for row in rows:
        for heavy in ("payload", "headers", "traceback"):
            row.pop(heavy, None)
    if output is OutputFormat.TABLE:
        for row in rows:
            row["attempt_summary"] = f"{row['attempt']}/{row['max_attempts']}"
            row["error_summary"] = _first_line(row["error"])
    print_rows(rows, _COLUMNS, output)


@commands.command("show", epilog="Example:\n\n\b\n  tidegate jobs show 17 --output yaml")
def show_command(
    job: Annotated[int, typer.Argument(metavar="ID", min=1, max=MAX_ID, help="Job id.", show_default=False)],
    database_url: DatabaseUrl = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show everything that is kept of one job, its arguments and last traceback included."""

    async def call(engine: "Engine") -> "JobStatus":
        from tidegate.store.jobs import job_status

        return await job_status(engine, job)

    print_record(run(call, database_url).model_dump(), output, blocks=("traceback",))


@commands.command("retry", epilog="Example:\n\n\b\n  tidegate jobs retry 17 18")
def retry_command(jobs: Ids, database_url: DatabaseUrl = None) -> None:
    """Run finished jobs again, with all their attempts before them; one that waits for its backoff goes now."""

    async def call(engine: "Engine", job: int) -> str:
        from tidegate.store.jobs import retry_job

        return await retry_job(engine, job)

    _each(jobs, call, database_url)


@commands.command("cancel", epilog="Example:\n\n\b\n  tidegate jobs cancel 17")
def cancel_command(jobs: Ids, database_url: DatabaseUrl = None) -> None:
    """Cancel jobs: a waiting one at once; a running one is told to stop by its worker (cancelling)."""

    async def call(engine: "Engine", job: int) -> str:
        from tidegate.store.jobs import cancel_job

        return await cancel_job(engine, job)

    _each(jobs, call, database_url)


def _each(jobs: list[int], call: "Callable[[Any, int], Awaitable[str]]", database_url: str | None) -> None:
    """Do one thing to each job. A refusal is printed and stops no other; the first one gives the exit code."""

    async def call_all(engine: "Engine") -> ExitCode:
        code = ExitCode.OK
        for job in dict.fromkeys(jobs):
            try:
                print_line(f"job {job}: {await call(engine, job)}")
            except TidegateError as error:
                complain(str(error))
                code = code or exit_code_of(error)
        return code

    raise typer.Exit(run(call_all, database_url))


def _first_line(error: str | None) -> str | None:
    lines = (error or "").strip().splitlines()
    return lines[0][:80] if lines else None
