"""How the one column of text that every statement returns is read."""

import json
from collections.abc import Iterable
from datetime import timedelta
from typing import Any


def first(rows: list[str | None]) -> Any:
    """Return the JSON value of the first row; None where it is null or there is no row."""
    text = rows[0] if rows else None
    return None if text is None else json.loads(text)


def every(rows: list[str | None]) -> list[Any]:
    """Return the JSON value of each row."""
    return [json.loads(text) for text in rows if text is not None]


def with_spans(row: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the row with these fields as ``timedelta``; statements write spans as whole microseconds."""
    spans = {name: timedelta(microseconds=row[name]) for name in names if row.get(name) is not None}
    return {**row, **spans}
