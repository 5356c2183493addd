"""Names: the table, the pattern on its own, and pydantic's field agree with each other."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tests.examples_table import NAMES, Text
from tidegate.errors import InvalidName
from tidegate.model.names import MAX_NAME, NAME_PATTERN, Name, check_key, check_name

FIELD: TypeAdapter[str] = TypeAdapter(Name)
ANY_TEXT = st.text(st.characters(codec=None, categories=None), max_size=12) | st.text("a \n\0\x7f\ud800", max_size=4)


def legal(value: str) -> bool:
    storable = not any("\ud800" <= character <= "\udfff" for character in value)
    return bool(re.fullmatch(NAME_PATTERN, value)) and len(value) <= MAX_NAME and storable


def accepted(value: str) -> bool:
    try:
        return check_name(value, "key") == value
    except InvalidName:
        return False


def accepted_by_pydantic(value: str) -> bool:
    try:
        return FIELD.validate_python(value) == value
    except ValidationError:
        return False


@pytest.mark.parametrize("case", NAMES, ids=lambda case: case.label)
def test_table(case: Text) -> None:
    assert accepted(case.value) is case.good
    assert accepted_by_pydantic(case.value) is case.good
    assert legal(case.value) is case.good


@given(ANY_TEXT)
@example("a\n")
def test_function_pattern_and_field_agree(value: str) -> None:
    assert accepted(value) == accepted_by_pydantic(value) == legal(value)


@given(st.text("x \U0001f30a", min_size=MAX_NAME - 2, max_size=MAX_NAME + 2))
def test_length_counts_code_points(value: str) -> None:
    assert accepted(value) == accepted_by_pydantic(value) == legal(value)


@pytest.mark.parametrize("case", NAMES, ids=lambda case: case.label)
def test_a_jobs_own_key_may_be_empty_and_is_a_name_otherwise(case: Text) -> None:
    if case.good or not case.value:
        assert check_key(case.value, "limit_key") == case.value
    else:
        with pytest.raises(InvalidName, match=r"^limit_key must "):
            check_key(case.value, "limit_key")


@pytest.mark.parametrize("value", [None, 5, True, b"a", ["a"], 0, b""])
def test_other_types_are_no_names(value: object) -> None:
    for check in (check_name, check_key):
        with pytest.raises(InvalidName, match=f"must be text; got {type(value).__name__}"):
            check(value, "queue")


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("", "must not be empty; give 1 to 200 characters"),
        ("x" * 201, "must have at most 200 characters; this one has 201, shorten it"),
        ("a ", "must not begin or end with a blank; strip it"),
        ("a\n", "must not hold control characters (line feed, tab, NUL, ...); remove them"),
        ("\ud83c", "must be Unicode text; it holds half of a surrogate pair, decode it first"),
    ],
)
def test_messages_say_what_to_do(value: str, rule: str) -> None:
    with pytest.raises(InvalidName) as caught:
        check_name(value, "queue")
    assert (caught.value.field, caught.value.rule, str(caught.value)) == ("queue", rule, f"queue {rule}")
