"""Field types and small checks that several models share."""

from __future__ import annotations

import json
from datetime import timedelta
from enum import Enum
from typing import Annotated, Final, TypeGuard

from pydantic import BaseModel, BeforeValidator, ConfigDict

from tidegate.errors import InvalidInput
from tidegate.model.durations import MAX_DURATION, format_duration


class Unset(Enum):
    """Type of ``UNSET``, which tells an argument that was left out from an explicit None."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET
"""The argument was left out: what it stands for keeps its value."""


class Row(BaseModel):
    """A row as a person sees it, read from a record of the database by column name; unknown columns are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class Owner(BaseModel):
    """The Kubernetes object that decides about a row: the column ``owner``."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    cluster: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


def _decoded(value: object) -> object:
    return json.loads(value) if isinstance(value, str | bytes) else value


Json = BeforeValidator(_decoded)
"""Marks a field that a driver may hand over as JSON text."""

OwnerColumn = Annotated[Owner | None, Json]
"""The column ``owner``, decoded or as JSON text."""


def is_integer(value: object) -> TypeGuard[int]:
    """True for an int that is no bool: Python calls ``True`` an int, a limit of True jobs is a mistake."""
    return isinstance(value, int) and not isinstance(value, bool)


def check_integer(
    value: object, field: str, low: int, high: int, error: type[InvalidInput], *, removes: bool = False
) -> int:
    """Return an int from ``low`` to ``high``, else raise ``error``; floats and bools are refused, never rounded."""
    instead = ", or None to remove it" if removes else ""
    if not is_integer(value):
        raise error(field, f"must be an integer from {low} to {high}{instead}; got {type(value).__name__}")
    if not low <= value <= high:
        raise error(field, f"must be an integer from {low} to {high}{instead}; got {value}")
    return value


def in_seconds(span: timedelta) -> str:
    """A duration for a message, whatever its sign: ``-0.05 s``."""
    return f"{span.total_seconds():f}".rstrip("0").rstrip(".") + " s"


def check_span(value: object, field: str, error: type[InvalidInput], *, zero: bool) -> timedelta:
    """Return a ``timedelta`` that is not negative, and not zero unless allowed, up to what durations can hold."""
    if not isinstance(value, timedelta):
        raise error(field, f"must be a timedelta; got {type(value).__name__}")
    if value < timedelta(0) or (value == timedelta(0) and not zero):
        raise error(field, f"must be {'0 or more' if zero else 'more than 0'}; got {in_seconds(value)}")
    if value > MAX_DURATION:
        raise error(field, f"must be at most {format_duration(MAX_DURATION)}; got {in_seconds(value)}")
    return value
