"""Durations as people and Kubernetes write them: ``500ms``, ``60s``, ``1h30m``.

The grammar is Go's ``time.ParseDuration`` without fractions, signs, and units below the millisecond, which is also
what the API server's CEL function ``duration()`` reads, up to the same largest value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Final

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from tidegate.errors import InvalidDuration
from tidegate.model.cel import CelRule, judged_by

DURATION_PATTERN: Final = r"^([0-9]+(ms|s|m|h))+$"
"""A duration that may name milliseconds; matched whole."""

SECONDS_PATTERN: Final = r"^([0-9]+(s|m|h))+$"
"""A duration of whole seconds, as most fields of a manifest take it; matched whole."""

MAX_DURATION_TEXT: Final = 20
"""Most characters of a duration."""

MAX_DURATION: Final = timedelta(microseconds=(2**63 - 1) // 1000)
"""Longest duration, about 292 years: what Go and CEL hold in 64 bits of nanoseconds."""

LONGEST: Final = "2562047h47m16s854ms"
"""``MAX_DURATION`` in whole milliseconds, as it is written."""

_PART: Final = re.compile(r"([0-9]+)(ms|s|m|h)")
_MILLISECONDS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}


def parse_duration(text: object, field: str = "duration", *, pattern: str = DURATION_PATTERN) -> timedelta:
    """Read ``1h30m``; raise ``InvalidDuration`` with the field and the rule for anything else.

    ``pattern`` is ``DURATION_PATTERN`` or, for fields without milliseconds, ``SECONDS_PATTERN``.
    """
    units = "ms, s, m or h" if pattern == DURATION_PATTERN else "s, m or h"
    if not isinstance(text, str):
        raise InvalidDuration(field, f"must be text such as 60s or 1h30m; got {type(text).__name__}")
    if len(text) > MAX_DURATION_TEXT:
        raise InvalidDuration(field, f"must have at most {MAX_DURATION_TEXT} characters; write it shorter, as in 1h30m")
    if not re.fullmatch(pattern, text):
        raise InvalidDuration(
            field, f"must be whole numbers, each with a unit ({units}), as in 60s or 1h30m; got {text!r}"
        )
    milliseconds = sum(int(number) * _MILLISECONDS[unit] for number, unit in _PART.findall(text))
    if milliseconds > MAX_DURATION // timedelta(milliseconds=1):
        raise InvalidDuration(field, f"must be at most {LONGEST}; got {text}")
    return timedelta(milliseconds=milliseconds)


def format_duration(duration: timedelta) -> str:
    """Write a duration so that ``parse_duration`` reads it back: largest unit first, no zeros, ``0s`` for none.

    Less than a millisecond is rounded to the nearest one. Raises ``InvalidDuration`` for a negative duration.
    """
    if duration < timedelta(0):
        raise InvalidDuration("duration", "must not be negative")
    rest = round(duration / timedelta(milliseconds=1))
    text = ""
    for unit, size in sorted(_MILLISECONDS.items(), key=lambda item: -item[1]):
        count, rest = divmod(rest, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def duration_schema(pattern: str, *rules: CelRule) -> WithJsonSchema:
    """The schema of text that matches ``pattern``, for the API server; ``rules`` bound it, at least from above."""
    return WithJsonSchema({"type": "string", "maxLength": MAX_DURATION_TEXT, "pattern": pattern, **judged_by(*rules)})


_NOT_TOO_LONG: Final = CelRule(f"duration(self) <= duration('{LONGEST}')", f"must be at most {LONGEST}")


def _reader(pattern: str) -> Callable[[object], timedelta]:
    def read(value: object) -> timedelta:
        return value if isinstance(value, timedelta) else parse_duration(value, pattern=pattern)

    return read


Duration = Annotated[
    timedelta,
    BeforeValidator(_reader(DURATION_PATTERN)),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    duration_schema(DURATION_PATTERN, _NOT_TOO_LONG),
]
"""A pydantic field: a ``timedelta``, or text that may name milliseconds; text again in JSON."""

Seconds = Annotated[
    timedelta,
    BeforeValidator(_reader(SECONDS_PATTERN)),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    duration_schema(SECONDS_PATTERN, _NOT_TOO_LONG),
]
"""A pydantic field: a ``timedelta``, or text in whole seconds, minutes and hours; text again in JSON."""
