"""``tidegate limits``: the policies and their live use."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli.options import DatabaseUrl, Force, Output
from tidegate.cli.printing import Column, OutputFormat, print_line, print_record, print_rows
from tidegate.cli.running import run
from tidegate.errors import InvalidLimit

if TYPE_CHECKING:
    from tidegate.model.limits import LimitPolicy, LimitStatus
    from tidegate.store.engine import Engine

commands = typer.Typer(
    help="Limits: how many jobs of a key may run, and start in a window.",
    epilog="Example:\n\n\b\n  tidegate limits set vendor-x --max-running 4\n  tidegate limits list",
    no_args_is_help=True,
)

Key = Annotated[str, typer.Argument(metavar="KEY", help="The limit key that jobs carry.", show_default=False)]

_COLUMNS = (
    Column("KEY", "key"),
    Column("RUNNING", "running", number=True),
    Column("MAX", "max_running", number=True),
    Column("WAITING", "waiting", number=True),
    Column("BLOCKED", "blocked", number=True),
    Column("STARTS", "starts_summary", number=True),
    Column("WINDOW", "window", number=True),
    Column("WEIGHT", "weight", number=True),
    Column("NEXT START", "next_summary"),
    Column("OWNER", "owner_summary"),
)

_TYPED = (
    ("max_starts=None", "--max-starts none"),
    ("or None to", "or none to"),
    ("another window", "another --window"),
    ("needs a window", "needs a --window such as 1m"),
    ("needs max_starts", "needs --max-starts"),
    ("while max_starts is", "while --max-starts is"),
    ("has max_starts", "has --max-starts"),
)
"""What the rules of ``set_limit`` say, as it is typed here: whole phrases, since a rule may quote a key."""


@commands.command(
    "list",
    epilog="Example:\n\n\b\n  tidegate limits list --output json",
)
def list_command(database_url: DatabaseUrl = None, output: Output = OutputFormat.TABLE) -> None:
    """List every key with a policy: what runs, waits and started, and when the next start is possible."""

    async def call(engine: "Engine") -> "list[LimitStatus]":
        from tidegate.store.limits import list_limits

        return list(await list_limits(engine))

    rows = [status.model_dump() for status in run(call, database_url)]
    if output is OutputFormat.TABLE:
        rows = [_summary(row) for row in rows]
    print_rows(rows, _COLUMNS, output)


@commands.command(
    "set",
    epilog="Example:\n\n\b\n"
    "  tidegate limits set vendor-x --max-running 4 --max-starts 100 --window 1m\n"
    "  tidegate limits set vendor-x --max-running none      # takes that part away, keeps the rest",
)
def set_command(
    key: Key,
    *,
    max_running: Annotated[
        str | None, typer.Option(metavar="N|none", help="At most this many run at once; 0 holds every job back.")
    ] = None,
    max_starts: Annotated[
        str | None,
        typer.Option(metavar="N|none", help="At most this many start in any window; 0 holds every job back."),
    ] = None,
    window: Annotated[
        str | None, typer.Option(metavar="DURATION|none", help="The sliding window of --max-starts: 100ms to 24h.")
    ] = None,
    weight: Annotated[
        str | None, typer.Option(metavar="N|none", help="Share of the key in fair order: 1 to 1000.")
    ] = None,
    force: Force = False,
    database_url: DatabaseUrl = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Set parts of a key's policy. What is left out keeps its value; none removes it. The next claim obeys."""
    from tidegate.model.limits import LimitChange

    given = {"max_running": max_running, "max_starts": max_starts, "window": window, "weight": weight}
    changes: dict[str, Any] = {name: _part(name, text) for name, text in given.items() if text is not None}
    with _in_flags():
        LimitChange(key, **changes)

    async def call(engine: "Engine") -> "LimitPolicy":
        from tidegate.store.limits import set_limit
        from tidegate.store.manifests import refuse_owned_limit

        async with engine.begin() as connection:
            if not force:
                await refuse_owned_limit(connection, key)
            policy: LimitPolicy = await set_limit(connection, key, **changes)
            return policy

    with _in_flags():
        policy = run(call, database_url)
    print_record(policy.model_dump(), output)


@commands.command("clear", epilog="Example:\n\n\b\n  tidegate limits clear vendor-x")
def clear_command(key: Key, force: Force = False, database_url: DatabaseUrl = None) -> None:
    """Remove a key's policy and start marks: its jobs have no limit any more. A key without a policy is no error."""
    from tidegate.model.names import check_name

    check_name(key, "key")

    async def call(engine: "Engine") -> bool:
        from tidegate.store.limits import clear_limit
        from tidegate.store.manifests import refuse_owned_limit

        async with engine.begin() as connection:
            if not force:
                await refuse_owned_limit(connection, key)
            cleared: bool = await clear_limit(connection, key)
            return cleared

    print_line(f"limit {key}: cleared" if run(call, database_url) else f"limit {key}: had no policy")


def _summary(row: dict[str, Any]) -> dict[str, object]:
    starts, most = row["starts"], row["max_starts"]
    owner = row["owner"]
    return {
        **row,
        "starts_summary": None if most is None else f"{starts}/{most}",
        "next_summary": "now" if row["next_start_at"] and (most is None or starts < most) else row["next_start_at"],
        "owner_summary": owner and f"{owner['namespace']}/{owner['name']}",
    }


@contextmanager
def _in_flags() -> Iterator[None]:
    """Say a refusal in the words that were typed, not in those of Python or SQL."""
    try:
        yield
    except InvalidLimit as error:
        rule = error.rule
        for words, typed in _TYPED:
            rule = rule.replace(words, typed)
        raise InvalidLimit(_flags_of(error.field), rule) from None


def _flags_of(field: str) -> str:
    return re.sub(r"max_running|max_starts|window|weight", lambda name: _flag(name[0]), field)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _part(name: str, text: str) -> object:
    """Read one flag: None removes the part; a whole number or a duration sets it."""
    from tidegate.model.durations import parse_duration

    flag = _flag(name)
    if text == "none":
        return None
    if name == "window":
        return parse_duration(text, flag)
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise InvalidLimit(flag, f"must be a whole number, or none to remove it; got {text!r}")
    return int(text)
