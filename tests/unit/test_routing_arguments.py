"""What a call of an actor may look like, and what becomes of it; no database."""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, Strict, field_validator

from tidegate import (
    InvalidPayload,
)
from tidegate.routing.signatures import Arguments

MEBIBYTE = 1024 * 1024


class Colour(Enum):
    RED = "red"


class Item(BaseModel):
    name: str
    price: float | None = None
    extra: Any = None
    shown_as: str = Field("", alias="shownAs")


@dataclass
class Point:
    x: int
    y: int


def everything(  # type: ignore[no-untyped-def]
    number: int,
    text: str = "t",
    *,
    when: datetime | None = None,
    day: date | None = None,
    span: timedelta | None = None,
    identity: UUID | None = None,
    money: Decimal | None = None,
    colour: Colour | None = None,
    item: Item | None = None,
    items: list[Item] | None = None,
    point: Point | None = None,
    by_number: dict[int, timedelta] | None = None,
    unique: set[int] | None = None,
    pair: tuple[int, str] | None = None,
    raw: bytes = b"",
    strict: Annotated[int, Strict()] = 0,
    positive: Annotated[int, Field(gt=0)] = 1,
    anything: Any = None,
    unannotated=None,  # noqa: ANN001
    copy: int = 0,
    _private: int = 0,
) -> None:
    """Only its signature matters."""


ROUND_TRIPS: list[dict[str, Any]] = [
    {"number": 1},
    {"number": 1, "text": ""},
    {"number": 1, "when": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), "day": date(2026, 1, 2)},
    {"number": 1, "span": timedelta(days=1, microseconds=1), "identity": UUID(int=7), "money": Decimal("1.50")},
    {"number": 1, "colour": Colour.RED, "point": Point(1, 2), "pair": (1, "a"), "unique": {3, 1}},
    {"number": 1, "item": Item(name="a", price=1.5, shownAs="b", extra={"deep": [1, None]})},
    {"number": 1, "items": [Item(name="a"), Item(name="b")], "by_number": {1: timedelta(seconds=1)}},
    {"number": 1, "raw": b"bytes", "strict": 2, "anything": {"a": [1, 2.5, "x", None, True]}, "unannotated": [1]},
    {"number": 1, "copy": 2, "_private": 3},
    {"number": 10**25},
]


@pytest.mark.parametrize("arguments", ROUND_TRIPS, ids=lambda arguments: ",".join(list(arguments)[1:]) or "number")
def test_what_is_enqueued_is_what_runs(arguments: dict[str, Any]) -> None:
    taken = Arguments(everything, "everything")
    payload = taken.encode((), arguments, MEBIBYTE)
    bound = taken.bind(payload)
    assert bound == arguments
    assert {name: type(value) for name, value in bound.items()} == {
        name: type(value) for name, value in arguments.items()
    }
    inspect.signature(everything).bind(**bound)


@given(
    st.fixed_dictionaries(
        {"number": st.integers()},
        optional={
            "text": st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
            "when": st.datetimes(timezones=st.just(UTC)),
            "money": st.decimals(allow_nan=False, allow_infinity=False),
            "unique": st.sets(st.integers()),
            "anything": st.recursive(
                st.none() | st.booleans() | st.integers() | st.text("abc"),
                lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner),
                max_leaves=10,
            ),
        },
    )
)
def test_any_call_that_is_accepted_comes_back(arguments: dict[str, Any]) -> None:
    taken = Arguments(everything, "everything")
    assert taken.bind(taken.encode((), arguments, MEBIBYTE)) == arguments


def test_arguments_left_out_stay_out_so_that_a_default_may_change_while_the_job_waits() -> None:
    taken = Arguments(everything, "everything")
    assert taken.encode((), {"number": 1}, MEBIBYTE) == '{"number": 1}'
    assert taken.bind('{"number": 1}') == {"number": 1}


def test_values_are_converted_as_pydantic_does_and_stored_converted() -> None:
    taken = Arguments(everything, "everything")
    assert taken.encode((), {"number": "1", "identity": str(UUID(int=7))}, MEBIBYTE) == (
        '{"number": 1, "identity": "00000000-0000-0000-0000-000000000007"}'
    )


def test_positional_arguments_are_stored_by_name() -> None:
    taken = Arguments(everything, "everything")
    assert taken.encode((1, "a"), {"copy": 2}, MEBIBYTE) == '{"number": 1, "text": "a", "copy": 2}'


def test_a_payload_may_come_decoded() -> None:
    taken = Arguments(everything, "everything")
    bound = taken.bind({"number": 1, "when": "2026-01-02T03:04:05Z", "by_number": {"1": "PT1S"}})
    assert bound == {
        "number": 1,
        "when": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "by_number": {1: timedelta(seconds=1)},
    }


SECRET = "hunter2"
DEEP: list[Any] = []
for _ in range(70):
    DEEP = [DEEP]
CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)

BAD: list[tuple[tuple[Any, ...], dict[str, Any], str, str]] = [
    ((), {}, "number", "is missing: actor 'everything' needs it"),
    ((), {"number": SECRET}, "number", "Input should be a valid integer"),
    ((), {"number": 1, "color": SECRET}, "color", "is no argument of actor 'everything', which takes number, text, "),
    ((1,), {"number": SECRET}, "number", "given twice"),
    ((1, "t", SECRET), {}, "when", "Input should be a valid datetime"),
    (tuple(range(30)), {}, "arguments", "are 30"),
    ((1,), {"item": {"name": "a", "price": SECRET}}, "item.price", "Input should be a valid number"),
    ((1,), {"items": [{"name": "a"}, {}]}, "items[1].name", "is missing"),
    ((1,), {"strict": "1"}, "strict", "Input should be a valid integer"),
    ((1,), {"positive": 0}, "positive", "greater than 0"),
    ((1,), {"anything": float("nan")}, "anything", "NaN or infinite"),
    ((1,), {"anything": {"a": [float("inf")]}}, "anything.a[0]", "NaN or infinite"),
    ((1,), {"item": Item(name="a", price=float("nan"))}, "item.price", "NaN or infinite"),
    ((1,), {"item": Item(name="a", extra=float("-inf"))}, "item.extra", "NaN or infinite"),
    ((1,), {"money": Decimal("NaN")}, "money", "finite number"),
    ((1, f"\0{SECRET}"), {}, "text", "NUL"),
    ((1,), {"anything": {f"\0{SECRET}": 1}}, "anything", "NUL"),
    ((1,), {"anything": f"\ud800{SECRET}"}, "anything", "surrogate"),
    ((1,), {"anything": DEEP}, "anything", "nested deeper"),
    ((1,), {"anything": CIRCLE}, "anything", "nested deeper"),
    ((1,), {"anything": object()}, "anything", "cannot write as JSON"),
    ((1,), {"raw": b"\xff"}, "raw", "cannot write as JSON"),
    ((10**5000,), {}, "", "digits"),
    ((1, SECRET * MEBIBYTE), {}, "payload", f"must have at most {MEBIBYTE} bytes as JSON"),
]


@pytest.mark.parametrize(
    ("args", "kwargs", "field", "rule"), BAD, ids=[f"{field}-{rule}"[:40] for _, _, field, rule in BAD]
)
def test_bad_arguments_are_named_and_never_quoted(
    args: tuple[Any, ...], kwargs: dict[str, Any], field: str, rule: str
) -> None:
    with pytest.raises(InvalidPayload) as caught:
        Arguments(everything, "everything").encode(args, kwargs, MEBIBYTE)
    assert field in caught.value.field
    assert rule in caught.value.rule
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_several_problems_are_told_at_once_up_to_five() -> None:
    def many(*, a: int, b: int, c: int, d: int, e: int, f: int, g: int) -> None: ...

    with pytest.raises(InvalidPayload, match=r"^a is missing.*; b is missing.*; e is missing.*; and 2 more$"):
        Arguments(many, "many").encode((), {}, MEBIBYTE)


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


def test_a_wrong_tag_is_not_quoted() -> None:
    def feed(animal: Annotated[Cat | Dog, Field(discriminator="kind")]) -> None: ...

    with pytest.raises(InvalidPayload) as caught:
        Arguments(inspect_me(feed), "feed").encode((), {"animal": {"kind": SECRET}}, MEBIBYTE)
    assert SECRET not in str(caught.value)


def inspect_me(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of a user's, below the actor's."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


class OneWay(BaseModel):
    """Reads other names than it writes."""

    secret: str = Field(validation_alias="in", serialization_alias="out")


def test_a_model_that_does_not_read_what_it_writes_is_refused_at_enqueue() -> None:
    def once(model: OneWay) -> None: ...

    with pytest.raises(InvalidPayload, match="is written as JSON that its own type refuses"):
        Arguments(once, "once").encode((), {"model": {"in": "x"}}, MEBIBYTE)


class Upper(BaseModel):
    text: str

    @field_validator("text")
    @classmethod
    def is_upper(cls, text: str) -> str:
        if not text.isupper():
            raise ValueError("must be upper case")
        return text


def test_a_validator_of_the_users_is_asked_at_enqueue_and_at_run() -> None:
    def shout(message: Upper) -> None: ...

    taken = Arguments(shout, "shout")
    with pytest.raises(InvalidPayload, match=r"message\.text does not fit actor 'shout': .*must be upper case"):
        taken.encode((), {"message": {"text": "low"}}, MEBIBYTE)
    with pytest.raises(InvalidPayload, match=r"message\.text"):
        taken.bind('{"message": {"text": "low"}}')


@pytest.mark.parametrize("payload", ["[]", "7", "null", '"text"', "{", ""])
def test_a_payload_that_is_no_object_is_refused_at_run(payload: str) -> None:
    with pytest.raises(InvalidPayload, match=r"^payload "):
        Arguments(everything, "everything").bind(payload)
