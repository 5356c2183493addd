"""Limits: what a policy holds, how a change of it is judged, and what is shown of it.

A policy has up to three parts: ``max_running``; the rate, ``max_starts`` per ``window``, of which neither stands
alone; and ``weight``. A part that is None is not limited.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Final

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, model_validator

from tidegate.errors import InvalidLimit
from tidegate.model.cel import CelRule
from tidegate.model.defaults import MAX_LIMIT, MAX_WEIGHT, MAX_WINDOW, MIN_WINDOW
from tidegate.model.durations import DURATION_PATTERN, Duration, duration_schema, format_duration
from tidegate.model.fields import UNSET, OwnerColumn, Row, Unset, check_integer, in_seconds
from tidegate.model.names import Name, check_name

_BOUNDS: Final = f"from {format_duration(MIN_WINDOW)} to {format_duration(MAX_WINDOW)}"

_WINDOW_STAYS: Final = "cannot be removed while max_starts is set; give another window, or max_starts=None for both"


def check_window(window: object) -> timedelta:
    """Return a legal window, else raise ``InvalidLimit``."""
    if not isinstance(window, timedelta):
        raise InvalidLimit(
            "window", f"must be a timedelta {_BOUNDS}, or None to remove it; got {type(window).__name__}"
        )
    if not MIN_WINDOW <= window <= MAX_WINDOW:
        raise InvalidLimit("window", f"must be {_BOUNDS}; got {in_seconds(window)}")
    return window


MaxRunning = Annotated[int, Field(strict=True, ge=0, le=MAX_LIMIT)]
"""Jobs of one key that may run at once."""

MaxStarts = Annotated[int, Field(strict=True, ge=0, le=MAX_LIMIT)]
"""Jobs of one key that may start within any window."""

Weight = Annotated[int, Field(strict=True, ge=1, le=MAX_WEIGHT)]
"""Share of a key in fair order, relative to other keys."""

_WINDOW_RULE: Final = CelRule(
    f"duration(self) >= duration('{format_duration(MIN_WINDOW)}')"
    f" && duration(self) <= duration('{format_duration(MAX_WINDOW)}')",
    f"must be {_BOUNDS}",
)

Window = Annotated[Duration, AfterValidator(check_window), duration_schema(DURATION_PATTERN, _WINDOW_RULE)]
"""Length of the sliding window of ``max_starts``."""

StoredWindow = Annotated[Window | None, Field(validation_alias=AliasChoices("window", "rate_window"))]
"""A window read from the database, where the column is ``rate_window`` (``window`` is reserved in SQL)."""


class LimitPolicy(BaseModel):
    """The limits in force for one key. ``LimitPolicy(key="k")`` limits nothing, as if there were no policy."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    key: Name
    max_running: MaxRunning | None = None
    max_starts: MaxStarts | None = None
    window: StoredWindow = None
    weight: Weight | None = None

    @model_validator(mode="after")
    def _rate_is_whole(self) -> LimitPolicy:
        _check_rate(self.max_starts, self.window)
        return self

    def to_change(self) -> LimitChange:
        """The change that brings any stored policy of this key to exactly this one, removing what is not set here."""
        return LimitChange(
            self.key, max_running=self.max_running, max_starts=self.max_starts, window=self.window, weight=self.weight
        )


@dataclass(frozen=True)
class LimitChange:
    """The arguments of ``set_limit``: what is left out keeps its value, None removes that part.

    Raises ``InvalidLimit`` (or ``InvalidName`` for the key) with the argument's name. What cannot be judged without the
    stored policy, a rate of which only one half is given, is left to ``apply_change``.
    """

    key: str
    max_running: int | Unset | None = UNSET
    max_starts: int | Unset | None = UNSET
    window: timedelta | Unset | None = UNSET
    weight: int | Unset | None = UNSET

    def __post_init__(self) -> None:
        check_name(self.key, "key")
        if all(part is UNSET for part in (self.max_running, self.max_starts, self.window, self.weight)):
            raise InvalidLimit(
                "max_running, max_starts, window and weight", "are all left out; give at least one of them"
            )
        for field, low, high in (
            ("max_running", 0, MAX_LIMIT),
            ("max_starts", 0, MAX_LIMIT),
            ("weight", 1, MAX_WEIGHT),
        ):
            value = getattr(self, field)
            if value is not UNSET and value is not None:
                check_integer(value, field, low, high, InvalidLimit, removes=True)
        if self.window is not UNSET and self.window is not None:
            check_window(self.window)
        if self.max_starts is None and isinstance(self.window, timedelta):
            raise InvalidLimit(
                "window", "cannot be set while max_starts=None removes the rate; leave one of the two out"
            )
        if self.window is None and isinstance(self.max_starts, int):
            raise InvalidLimit("window", _WINDOW_STAYS)

    def to_changes(self) -> dict[str, int | float | None]:
        """The JSON object of SQL's ``change_limit``: a key that is absent keeps its value, null removes that part."""
        changes: dict[str, int | float | None] = {}
        for field in ("max_running", "max_starts", "weight"):
            value = getattr(self, field)
            if value is not UNSET:
                changes[field] = value
        if isinstance(self.window, timedelta):
            milliseconds = self.window / timedelta(milliseconds=1)
            changes["window_ms"] = int(milliseconds) if milliseconds.is_integer() else milliseconds
        elif self.window is None or self.max_starts is None:
            changes["window_ms"] = None
        return changes


def apply_change(old: LimitPolicy | None, change: LimitChange) -> LimitPolicy:
    """The policy after a change; raises ``InvalidLimit`` when it would leave a rate without one of its halves.

    The single source of the rule that SQL's ``change_limit`` keeps under the key's lock: ``max_starts=None`` removes
    the whole rate; ``window=None`` is an error while ``max_starts`` stays; neither half can be set without the other.
    """
    before = old or LimitPolicy(key=change.key)
    max_starts = before.max_starts if isinstance(change.max_starts, Unset) else change.max_starts
    window = before.window if isinstance(change.window, Unset) else change.window
    if change.max_starts is None:
        window = None
    if change.window is None and max_starts is not None:
        raise InvalidLimit("window", _WINDOW_STAYS)
    _check_rate(max_starts, window)
    return LimitPolicy(
        key=change.key,
        max_running=before.max_running if isinstance(change.max_running, Unset) else change.max_running,
        max_starts=max_starts,
        window=window,
        weight=before.weight if isinstance(change.weight, Unset) else change.weight,
    )


def _check_rate(max_starts: int | None, window: timedelta | None) -> None:
    if max_starts is not None and window is None:
        raise InvalidLimit(
            "max_starts", "needs a window, and the key has none yet; give both, as in window=timedelta(minutes=1)"
        )
    if max_starts is None and window is not None:
        raise InvalidLimit("window", "needs max_starts, and the key has none yet; give both")


class LimitStatus(Row):
    """One row of the view ``limit_status``: a policy and its live use over all queues and workers."""

    key: str
    max_running: int | None = None
    max_starts: int | None = None
    window: Annotated[Duration | None, Field(validation_alias=AliasChoices("window", "rate_window"))] = None
    weight: int | None = None
    running: int = 0
    waiting: int = 0
    blocked: int = 0
    starts: int = 0
    next_start_at: datetime | None = None
    owner: OwnerColumn = None
