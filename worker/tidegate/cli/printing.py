"""Rows for people as tables, for programs as JSON or YAML; errors as one line and a hint."""

import io
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum, StrEnum
from typing import Any, TextIO
from uuid import UUID

import typer

from tidegate.cli.exits import ExitCode
from tidegate.cli.tables import draw_table


class OutputFormat(StrEnum):
    """How a command prints what it found."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


@dataclass(frozen=True)
class Column:
    """One column of a table: its heading, the field of the row, and whether it holds numbers."""

    heading: str
    field: str
    number: bool = False


def plain(value: object) -> Any:
    """Return a value as JSON has it: durations as ``1h30m``, instants as ISO 8601 in UTC, the rest unchanged."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(each) for each in value]
    if isinstance(value, timedelta):
        from tidegate.model.durations import format_duration

        return format_duration(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, UUID):
        return str(value)
    return value


def visible(text: str, *, lines: bool = False) -> str:
    """Return a text that a terminal shows and does not obey: what is not printable becomes an escape.

    With ``lines``, line feeds are kept, for a traceback.
    """
    return "".join(
        each if each.isprintable() or (lines and each == "\n") else each.encode("unicode_escape", "replace").decode()
        for each in text
    )


def print_rows(rows: Sequence[Mapping[str, object]], columns: Sequence[Column], output: OutputFormat) -> None:
    """Print a listing: a table of the given columns, or every field as a JSON or YAML list."""
    if output is not OutputFormat.TABLE:
        _write(_serialise([plain(row) for row in rows], output))
        return
    cells = [[_cell(row[column.field]) for column in columns] for row in rows]
    headings, numbers = [column.heading for column in columns], [column.number for column in columns]
    _write(draw_table(headings, cells, numbers, terminal=sys.stdout.isatty()))


def print_record(row: Mapping[str, object], output: OutputFormat, *, blocks: Sequence[str] = ()) -> None:
    """Print one thing: a field a line, or a JSON or YAML object.

    ``blocks`` are fields of several lines, printed last, each under its name; left out when empty.
    """
    if output is not OutputFormat.TABLE:
        _write(_serialise(plain(row), output))
        return
    fields = {name: value for name, value in row.items() if name not in blocks}
    width = max(len(name) for name in fields)
    lines = [f"{name:<{width}}  {_cell(value)}".rstrip() for name, value in fields.items()]
    for name in blocks:
        if row.get(name):
            lines += [f"{name}:", *(f"    {line}" for line in visible(str(row[name]), lines=True).splitlines())]
    _write("\n".join(lines) + "\n")


def print_line(text: str) -> None:
    """Print one line of a result on standard output."""
    _write(visible(text) + "\n")


def print_lines(texts: Iterable[str]) -> None:
    """Print lines of a result on standard output."""
    _write("".join(visible(text) + "\n" for text in texts))


def note(text: str) -> None:
    """Print a remark on standard error, where it does not mix with a result."""
    _complain(visible(text))


def complain(message: str, hint: str | None = None) -> None:
    """Print an error on standard error: one ``error:`` for each line of the message, and what to do as ``hint:``."""
    for line in message.splitlines() or [""]:
        _complain(f"error: {visible(line)}")
    if hint:
        _complain(f"hint: {visible(hint)}")


def shown(value: object) -> str:
    """Return a value as people read it inside a sentence: ``none``, ``yes``, ``1m``, a number or a text."""
    return "none" if value is None else _cell(value)


def _cell(value: object) -> str:
    ready = plain(value)
    if ready is None or ready == "":
        return "-"
    if isinstance(ready, bool):
        return "yes" if ready else "no"
    if isinstance(ready, list):
        return ", ".join(visible(str(each)) for each in ready) or "-"
    if isinstance(ready, dict):
        return visible(json.dumps(ready, ensure_ascii=False))
    return visible(str(ready))


def _serialise(value: Any, output: OutputFormat) -> str:
    if output is OutputFormat.JSON:
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.allow_unicode = True
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    text = io.StringIO()
    yaml.dump(value, text)
    return text.getvalue()


def _write(text: str) -> None:
    try:
        _put(sys.stdout, text)
    except OSError as error:
        # The interpreter flushes at exit and would complain again: give it somewhere to write.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise typer.Exit(ExitCode.PIPE_CLOSED) from None
        complain(f"cannot write the output: {error.strerror}; what the command does was done")
        raise typer.Exit(ExitCode.FAILED) from None


def _complain(text: str) -> None:
    try:
        _put(sys.stderr, text + "\n")
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _put(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()
