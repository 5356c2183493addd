"""Durations: the table, the grammar, and that writing and reading are inverse."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tests.examples_table import DURATIONS, DurationText
from tidegate.errors import InvalidDuration
from tidegate.model.durations import (
    DURATION_PATTERN,
    MAX_DURATION,
    MAX_DURATION_TEXT,
    SECONDS_PATTERN,
    Duration,
    Seconds,
    format_duration,
    parse_duration,
)

FINE: TypeAdapter[timedelta] = TypeAdapter(Duration)
COARSE: TypeAdapter[timedelta] = TypeAdapter(Seconds)
UNITS = {"ms": timedelta(milliseconds=1), "s": timedelta(seconds=1), "m": timedelta(minutes=1), "h": timedelta(hours=1)}
PARTS = st.lists(st.tuples(st.integers(0, 9999), st.sampled_from(sorted(UNITS))), min_size=1, max_size=6)


def read(adapter: TypeAdapter[timedelta], text: str) -> timedelta | None:
    try:
        return adapter.validate_python(text)
    except ValidationError:
        return None


@pytest.mark.parametrize("case", DURATIONS, ids=lambda case: repr(case.text))
def test_table(case: DurationText) -> None:
    expected = None if case.milliseconds is None else timedelta(milliseconds=case.milliseconds)
    assert read(FINE, case.text) == expected
    assert read(COARSE, case.text) == (expected if case.seconds_only else None)
    if expected is None:
        with pytest.raises(InvalidDuration, match=r"^window must"):
            parse_duration(case.text, "window")
    else:
        assert parse_duration(case.text) == expected


@given(PARTS)
def test_parts_add_up(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{number}{unit}" for number, unit in parts)
    if len(text) > MAX_DURATION_TEXT:
        with pytest.raises(InvalidDuration, match="at most 20 characters"):
            parse_duration(text)
    else:
        assert parse_duration(text) == sum((number * UNITS[unit] for number, unit in parts), timedelta(0))


@given(st.text("0123456789mshd.- \n\u0661", max_size=22) | st.text(max_size=5))
def test_what_is_read_is_what_the_pattern_matches(text: str) -> None:
    for pattern, adapter in ((DURATION_PATTERN, FINE), (SECONDS_PATTERN, COARSE)):
        result = read(adapter, text)
        if result is None:
            too_long = sum(int(n) * UNITS[u].total_seconds() for n, u in re.findall(r"([0-9]+)(ms|s|m|h)", text)) > 9e9
            assert not re.fullmatch(pattern, text) or len(text) > MAX_DURATION_TEXT or too_long
        else:
            assert re.fullmatch(pattern, text)
            assert len(text) <= MAX_DURATION_TEXT


@given(st.integers(0, MAX_DURATION // timedelta(milliseconds=1)))
def test_written_durations_are_read_back(milliseconds: int) -> None:
    duration = timedelta(milliseconds=milliseconds)
    text = format_duration(duration)
    assert parse_duration(text) == duration
    assert FINE.validate_json(FINE.dump_json(duration)) == duration


@given(st.timedeltas(timedelta(0), timedelta(days=3000)))
def test_less_than_a_millisecond_is_rounded(duration: timedelta) -> None:
    assert abs(parse_duration(format_duration(duration)) - duration) <= timedelta(microseconds=500)


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(0), "0s"),
        (timedelta(milliseconds=500), "500ms"),
        (timedelta(seconds=60), "1m"),
        (timedelta(minutes=90), "1h30m"),
        (timedelta(days=14), "336h"),
        (timedelta(hours=1, milliseconds=1), "1h1ms"),
    ],
)
def test_written_form(duration: timedelta, text: str) -> None:
    assert format_duration(duration) == text


def test_longest_duration_is_what_64_bits_of_nanoseconds_hold() -> None:
    assert format_duration(MAX_DURATION - timedelta(microseconds=775)) == "2562047h47m16s854ms"
    with pytest.raises(InvalidDuration, match="lease must be at most 2562047h47m16s85"):
        parse_duration("2562047h47m17s", "lease")


def test_negative_durations_are_not_written() -> None:
    with pytest.raises(InvalidDuration, match="must not be negative"):
        format_duration(timedelta(microseconds=-1))


@pytest.mark.parametrize("value", [60, 1.5, None, b"1s", True])
def test_other_types_are_no_durations(value: object) -> None:
    with pytest.raises(InvalidDuration, match=f"must be text such as 60s or 1h30m; got {type(value).__name__}"):
        parse_duration(value)


def test_the_message_names_the_units_of_the_field() -> None:
    with pytest.raises(
        InvalidDuration, match=re.escape("each with a unit (ms, s, m or h), as in 60s or 1h30m; got '60'")
    ):
        parse_duration("60")
    with pytest.raises(InvalidDuration, match=re.escape("each with a unit (s, m or h), as in 60s or 1h30m; got '5ms'")):
        parse_duration("5ms", pattern=SECONDS_PATTERN)
