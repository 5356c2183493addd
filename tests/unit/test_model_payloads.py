"""Payloads and headers: what is JSON comes through unchanged, what is not is refused by its path and never quoted."""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tidegate.errors import InvalidJob, InvalidPayload
from tidegate.model.defaults import MAX_HEADERS_BYTES, MAX_PAYLOAD_BYTES
from tidegate.model.payloads import serialise_headers, serialise_payload

SECRET = "hunter2"
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Pair(Enum):
    BOTH = (1, 2)


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Box:
    width: int


class Video(BaseModel):
    id: UUID
    length: timedelta
    sizes: dict[int, str]


class Note(BaseModel):
    id: str


def nested(levels: int) -> dict[str, Any]:
    """An object of arguments with that many levels of containers, the object itself included."""
    value: Any = 1
    for _ in range(levels - 1):
        value = [value]
    return {"a": value}


def refusal(args: Mapping[str, object], max_bytes: int = MAX_PAYLOAD_BYTES) -> InvalidPayload:
    with pytest.raises(InvalidPayload) as caught:
        serialise_payload(args, max_bytes)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return caught.value


@given(st.dictionaries(TEXT, JSON, max_size=4))
def test_json_comes_through_unchanged(args: dict[str, object]) -> None:
    assert json.loads(serialise_payload(args)) == args


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05Z"),
        (date(2026, 1, 2), "2026-01-02"),
        (timedelta(seconds=1), "PT1S"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("1.10"), "1.10"),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Pair.BOTH, [1, 2]),
        (Point(1, 2), [1, 2]),
        ((1, "a"), [1, "a"]),
        (deque([1, 2]), [1, 2]),
        (frozenset({1}), [1]),
        (b"text", "text"),
        (Box(3), {"width": 3}),
        (
            Video(id=UUID(int=2), length=timedelta(seconds=1), sizes={1: "s"}),
            {"id": "00000000-0000-0000-0000-000000000002", "length": "PT1S", "sizes": {"1": "s"}},
        ),
        (MappingProxyType({"a": OrderedDict(b=1)}), {"a": {"b": 1}}),
        (2**200, 2**200),
        (-0.5, -0.5),
        ('\U0001f30a \u2028 \x7f "\\', '\U0001f30a \u2028 \x7f "\\'),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_json_has_no_word_for_is_written_as_pydantic_writes_it(value: object, written: object) -> None:
    assert json.loads(serialise_payload({"a": value, "b": [value]})) == {"a": written, "b": [written]}


@pytest.mark.parametrize(
    ("value", "path", "rule"),
    [
        (float("nan"), "$.a", "is NaN or infinite, which JSON cannot hold; send None or text instead"),
        ([1, float("-inf")], "$.a[1]", "is NaN or infinite"),
        ({"b": [{"c": f"{SECRET}\0"}]}, "$.a.b[0].c", "holds a NUL character, which Postgres cannot store; remove it"),
        (f"{SECRET}\ud83c", "$.a", "holds half of a surrogate pair, which UTF-8 cannot hold; remove it"),
        ({f"{SECRET}\0": 1}, "$.a", "has a key that holds a NUL character"),
        ({"\udf0a": 1}, "$.a", "has a key that holds half of a surrogate pair"),
        ({1: SECRET}, "$.a", "has a key of type int; keys must be text"),
        ({None: SECRET}, "$.a", "has a key of type NoneType; keys must be text"),
        ({"b c": float("nan")}, '$.a["b c"]', "is NaN or infinite"),
        ({"k" * 60: float("nan")}, f'$.a["{"k" * 40}..."]', "is NaN or infinite"),
        ({"\u00e9\n": float("nan")}, '$.a["\\u00e9\\n"]', "is NaN or infinite"),
        ([object()], "$.a[0]", "is a object that pydantic cannot write as JSON"),
        (lambda: SECRET, "$.a", "is a function that pydantic cannot write as JSON"),
        (f"{SECRET}\xff".encode("latin-1"), "$.a", "is a bytes that pydantic cannot write as JSON"),
        (Note.model_construct(id=f"{SECRET}\0"), "$.a.id", "holds a NUL character"),
        (Box(float("nan")), "$.a.width", "is NaN or infinite"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_stored_is_refused_by_its_path(value: object, path: str, rule: str) -> None:
    error = refusal({"a": value})
    assert error.field == path
    assert error.rule.startswith(rule)


def test_integers_of_thousands_of_digits_are_refused() -> None:
    assert json.loads(serialise_payload({"a": 10**4_000})) == {"a": 10**4_000}
    assert refusal({"a": 10**5_000}).rule == "holds an integer of thousands of digits; send it as text"


def test_64_levels_are_kept_and_65_refused() -> None:
    assert json.loads(serialise_payload(nested(64))) == nested(64)
    error = refusal(nested(65))
    assert error.field == "$.a" + "[0]" * 63
    assert error.rule == "is nested deeper than 64 levels; flatten it or send it as text"


def test_nesting_without_end_is_refused() -> None:
    loop: list[object] = [SECRET]
    loop.append(loop)
    assert "deeper than 64" in refusal({"a": loop}).rule
    assert "deeper than 64" in refusal(nested(100_000)).rule
    assert "cannot write as JSON" in refusal({"a": frozenset({Point(1, 2)}), "b": Box(loop)}).rule  # type: ignore[arg-type]


def test_size_counts_bytes_of_utf8_and_the_message_has_the_real_size() -> None:
    args = {"a": "\u00e9" * 45}
    assert len(serialise_payload(args, 99).encode()) == 99
    error = refusal({"a": SECRET + "\u00e9" * 43}, 99)
    assert error.field == "payload"
    assert error.rule.startswith("must have at most 99 bytes as JSON; this one has 102. Store the bulk elsewhere")


def test_the_default_bound_is_one_mebibyte() -> None:
    filler = "x" * (MAX_PAYLOAD_BYTES - len('{"a": ""}'))
    assert len(serialise_payload({"a": filler})) == 1024 * 1024
    assert "this one has 1048577" in refusal({"a": filler + "x"}).rule


def test_headers_are_text_to_text() -> None:
    assert json.loads(serialise_headers({"trace": "00-ab", "\u00e9": ""})) == {"trace": "00-ab", "\u00e9": ""}
    assert serialise_headers({}) == "{}"


@pytest.mark.parametrize(
    ("headers", "rule"),
    [
        ({"a": 1}, "must map text to text; a value is int"),
        ({1: "a"}, "must map text to text; a name is int"),
        ({"a": None}, "must map text to text; a value is NoneType"),
        ({"a": f"{SECRET}\0"}, "must be text that Postgres can store; a value holds a NUL character"),
        ({f"{SECRET}\ud83c": ""}, "must be text that Postgres can store; a name holds half of a surrogate pair"),
        ({"a": SECRET * 2000}, "must have at most 8192 bytes as JSON; these have 14009"),
    ],
    ids=["number", "number as name", "none", "NUL", "surrogate", "size"],
)
def test_bad_headers(headers: Any, rule: str) -> None:
    with pytest.raises(InvalidJob, match=f"^headers {rule}") as caught:
        serialise_headers(headers)
    assert SECRET not in str(caught.value)


def test_headers_up_to_the_bound() -> None:
    filler = "x" * (MAX_HEADERS_BYTES - len('{"a": ""}'))
    assert len(serialise_headers({"a": filler})) == 8192
    with pytest.raises(InvalidJob, match="these have 8193"):
        serialise_headers({"a": filler + "x"})
