"""``tidegate queues``: what waits and runs, and a hand on the tap."""

from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.options import DatabaseUrl, Output
from tidegate.cli.printing import Column, OutputFormat, print_line, print_rows
from tidegate.cli.running import run
from tidegate.errors import NotFound

if TYPE_CHECKING:
    from tidegate.model.queues import QueueSpec, QueueStatus
    from tidegate.store.engine import Engine

commands = typer.Typer(
    help="Queues: what waits and runs, and holding them back by hand.",
    epilog="Example:\n\n\b\n  tidegate queues list\n  tidegate queues suspend mail",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The queue.", show_default=False)]

_COLUMNS = (
    Column("QUEUE", "name"),
    Column("ORDER", "order"),
    Column("SUSPENDED", "suspended_summary"),
    Column("READY", "ready", number=True),
    Column("RUNNABLE", "runnable", number=True),
    Column("BLOCKED", "blocked", number=True),
    Column("RUNNING", "running", number=True),
    Column("SCHEDULED", "scheduled", number=True),
    Column("DEAD", "dead", number=True),
    Column("WORKERS", "workers", number=True),
    Column("OWNER", "owner_summary"),
)


@commands.command("list", epilog="Example:\n\n\b\n  tidegate queues list")
def list_command(database_url: DatabaseUrl = None, output: Output = OutputFormat.TABLE) -> None:
    """List the queues with their order, counts and live workers."""

    async def call(engine: "Engine") -> "list[QueueStatus]":
        from tidegate.store.queues import list_queues

        return list(await list_queues(engine))

    rows = [status.model_dump() for status in run(call, database_url)]
    if output is OutputFormat.TABLE:
        for row in rows:
            owner = row["owner"]
            by_object, by_hand = row["suspended"] and owner, row["held_by_hand"] or (row["suspended"] and not owner)
            reasons = [word for word, on in (("by object", by_object), ("by hand", by_hand)) if on]
            row["suspended_summary"] = ", ".join(reasons) or "no"
            row["owner_summary"] = owner and f"{owner.get('namespace')}/{owner.get('name')}"
    print_rows(rows, _COLUMNS, output)


@commands.command("suspend", epilog="Example:\n\n\b\n  tidegate queues suspend mail")
def suspend_command(name: Name, database_url: DatabaseUrl = None) -> None:
    """Hold a queue by hand: workers claim nothing from it, running jobs go on. No operator undoes it."""
    _hold(name, True, database_url)
    print_line(f"queue {name}: suspended by hand; tidegate queues resume {name} opens it again")


@commands.command("resume", epilog="Example:\n\n\b\n  tidegate queues resume mail")
def resume_command(name: Name, database_url: DatabaseUrl = None) -> None:
    """Let a queue go that was held by hand, or by an object that is gone. A Queue object's suspend stays in force."""
    queue = _hold(name, False, database_url)
    rest = "; its Queue object still suspends it (spec.suspend)" if queue.suspended else ""
    print_line(f"queue {name}: no longer held by hand{rest}")


def _hold(name: str, held: bool, database_url: str | None) -> "QueueSpec":
    """Write what a person decides; a name that no queue has is a slip of the hand, not a wish for a new queue."""
    from tidegate.model.names import check_name

    check_name(name, "queue")

    async def call(engine: "Engine") -> "QueueSpec":
        from tidegate.store.queues import list_queues, resume_queue, set_queue, suspend_queue

        async with engine.begin() as connection:
            known = [queue.name for queue in await list_queues(connection)]
            if name not in known:
                raise NotFound(f"queue {name!r}", _known(name, known))
            queue: QueueSpec = await (suspend_queue if held else resume_queue)(connection, name)
            if not held and queue.suspended:
                # looked at again, now that the row is ours until the end: an object may have come meanwhile
                owners = {each.name: each.owner for each in await list_queues(connection)}
                if owners[name] is None:
                    queue = await set_queue(connection, name, {"suspended": False})
            return queue

    return run(call, database_url)


def _known(name: str, known: list[str]) -> str:
    nearest = get_close_matches(name, known, n=3) or known[:10]
    if not nearest:
        return "no queue is known yet: a worker makes the queues that it serves, and so does tidegate apply"
    return f"there are: {', '.join(nearest)}"
