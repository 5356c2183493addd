"""Log lines of ``tidegate worker``: one record, one line, as key=value or JSON; never a payload, never a password."""

import json
import logging
import re
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

LogFormat = Literal["text", "json"]

_PASSWORD = re.compile(r"(\w+://[^\s:/@]*:)[^\s/@]*(@)|(password=)\S+", re.IGNORECASE)
_PLAIN = re.compile(r"[A-Za-z0-9_.:/@+*,<>()\[\]{}-]+")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_MAX_TRACEBACK = 8_000


def configure_logging(format: LogFormat = "text", level: str | int = "INFO", stream: TextIO | None = None) -> None:  # noqa: A002 - the flag's name
    """Send every record of the process to one stream, standard error unless given.

    Args:
        format: ``text`` for key=value lines, ``json`` for one object a line.
        level: the lowest level shown, by name in any case or by number.
        stream: where to write.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else KeyValueFormatter())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper() if isinstance(level, str) else level)


class KeyValueFormatter(logging.Formatter):
    """``2026-01-31T12:00:00.000Z INFO tidegate.worker "worker registered" slots=10``; values with blanks are quoted."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        time, level, logger, message, *fields = _fields(record)
        head = f"{time[1]} {level[1]} {logger[1]} {json.dumps(message[1], ensure_ascii=False)}"
        return " ".join([head, *(f"{name}={_shown(value)}" for name, value in fields)])


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, then the record's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        return json.dumps(dict(_fields(record)), ensure_ascii=False, default=str)


def _fields(record: logging.LogRecord) -> list[tuple[str, Any]]:
    time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    fields: list[tuple[str, Any]] = [
        ("time", time),
        ("level", record.levelname),
        ("logger", record.name),
        ("message", _without_password(record.getMessage())),
    ]
    for name, value in vars(record).items():
        if name not in _STANDARD:
            fields.append((name, _without_password(value) if isinstance(value, str) else value))
    if record.exc_info and record.exc_info[0] is not None:
        text = "".join(traceback.format_exception(*record.exc_info))
        fields.append(("exception", _without_password(text)[-_MAX_TRACEBACK:]))
    return fields


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, str) and not _PLAIN.fullmatch(text):
        return json.dumps(text, ensure_ascii=False)
    return text.replace(" ", "")


def _without_password(text: str) -> str:
    return _PASSWORD.sub(r"\1\3***\2", text)
