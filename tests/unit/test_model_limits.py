"""Limits: the table of changes, and what holds for any change of any policy."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.examples_table import FULL, LIMIT_CHANGES, NAMES, LimitCase, Text
from tidegate.errors import InvalidLimit, InvalidName
from tidegate.model.fields import UNSET, Owner
from tidegate.model.limits import LimitChange, LimitPolicy, LimitStatus, apply_change

KEY = "vendor-x"
NUMBERS = st.integers(0, 1_000_000)
WINDOWS = st.timedeltas(timedelta(milliseconds=100), timedelta(hours=24))
WEIGHTS = st.integers(1, 1000)


def arguments(parts: Mapping[str, Any]) -> dict[str, Any]:
    """The table's milliseconds as the timedelta that Python's callers give."""
    window = parts.get("window")
    return {**parts, "window": timedelta(milliseconds=window)} if window is not None else dict(parts)


def policy(parts: Mapping[str, Any]) -> LimitPolicy:
    return LimitPolicy(key=KEY, **arguments(parts))


@st.composite
def policies(draw: st.DrawFn) -> LimitPolicy:
    rate = draw(st.booleans())
    return LimitPolicy(
        key=KEY,
        max_running=draw(st.none() | NUMBERS),
        max_starts=draw(NUMBERS) if rate else None,
        window=draw(WINDOWS) if rate else None,
        weight=draw(st.none() | WEIGHTS),
    )


CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "max_running": st.none() | NUMBERS,
        "max_starts": st.none() | NUMBERS,
        "window": st.none() | WINDOWS,
        "weight": st.none() | WEIGHTS,
    },
)


@pytest.mark.parametrize("case", LIMIT_CHANGES, ids=lambda case: case.label)
def test_table(case: LimitCase) -> None:
    before = policy(case.before) if case.before else None
    if case.refused is None:
        assert apply_change(before, LimitChange(KEY, **arguments(case.change))) == policy(case.after)
    else:
        with pytest.raises(InvalidLimit) as caught:
            apply_change(before, LimitChange(KEY, **arguments(case.change)))
        assert caught.value.field == case.refused
        assert str(caught.value) == f"{case.refused} {caught.value.rule}"


@pytest.mark.parametrize("case", NAMES, ids=lambda case: case.label)
def test_keys(case: Text) -> None:
    if case.good:
        assert LimitChange(case.value, max_running=1).key == case.value
    else:
        with pytest.raises(InvalidName, match=r"^key "):
            LimitChange(case.value, max_running=1)


def test_a_change_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidLimit, match="are all left out; give at least one of them"):
        LimitChange(KEY)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_running": -1}, "max_running must be an integer from 0 to 1000000, or None to remove it; got -1"),
        ({"max_running": True}, "max_running must be an integer from 0 to 1000000, or None to remove it; got bool"),
        ({"window": 60}, "window must be a timedelta from 100ms to 24h, or None to remove it; got int"),
        ({"window": timedelta(0)}, "window must be from 100ms to 24h; got 0 s"),
        ({"window": timedelta(seconds=-1.5)}, "window must be from 100ms to 24h; got -1.5 s"),
        ({"weight": 0}, "weight must be an integer from 1 to 1000, or None to remove it; got 0"),
    ],
)
def test_messages_say_what_to_do(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidLimit) as caught:
        LimitChange(KEY, **change)
    assert str(caught.value) == message


@pytest.mark.parametrize("microseconds", [99_999, 86_400_000_001])
def test_the_window_is_judged_to_the_microsecond(microseconds: int) -> None:
    with pytest.raises(InvalidLimit, match=r"^window must be from 100ms to 24h"):
        LimitChange(KEY, max_starts=1, window=timedelta(microseconds=microseconds))


@given(st.none() | policies(), CHANGES)
def test_what_is_left_out_is_kept_and_the_rate_is_whole(old: LimitPolicy | None, change: dict[str, Any]) -> None:
    assume(change)
    before = old or LimitPolicy(key=KEY)
    try:
        new = apply_change(old, LimitChange(KEY, **change))
    except InvalidLimit:
        # only a rate that would lose, or never had, one of its halves is refused
        starts, window = change.get("max_starts", before.max_starts), change.get("window", before.window)
        assert (starts is None) != (window is None)
        return
    assert (new.max_starts is None) == (new.window is None)
    for part in ("max_running", "weight"):
        assert getattr(new, part) == change.get(part, getattr(before, part))
    if "max_starts" in change:
        assert new.max_starts == change["max_starts"]
    if change.get("window"):
        assert new.window == change["window"]
    if not change.keys() & {"max_starts", "window"}:
        assert (new.max_starts, new.window) == (before.max_starts, before.window)


@given(st.none() | policies(), policies())
def test_a_policy_as_a_change_brings_any_policy_to_it(old: LimitPolicy | None, wanted: LimitPolicy) -> None:
    assert apply_change(old, wanted.to_change()) == wanted


@given(policies())
def test_the_json_of_a_policys_change_names_every_part(wanted: LimitPolicy) -> None:
    changes = wanted.to_change().to_changes()
    assert changes.keys() == {"max_running", "max_starts", "window_ms", "weight"}
    window = changes["window_ms"]
    assert (None if window is None else timedelta(milliseconds=window)) == wanted.window


def test_the_json_of_a_change() -> None:
    assert LimitChange(KEY, max_running=4).to_changes() == {"max_running": 4}
    assert LimitChange(KEY, weight=None).to_changes() == {"weight": None}
    assert LimitChange(KEY, max_starts=None).to_changes() == {"max_starts": None, "window_ms": None}
    assert LimitChange(KEY, window=None).to_changes() == {"window_ms": None}
    changes = LimitChange(KEY, max_starts=1, window=timedelta(minutes=1)).to_changes()
    assert changes == {"max_starts": 1, "window_ms": 60_000}
    assert type(changes["window_ms"]) is int
    assert LimitChange(KEY, window=timedelta(microseconds=100_500)).to_changes() == {"window_ms": 100.5}


def test_left_out_is_not_none() -> None:
    change = LimitChange(KEY, max_running=None)
    assert change.max_running is None
    assert change.weight is UNSET


@pytest.mark.parametrize(
    "row",
    [
        {"key": KEY, "max_starts": 1},
        {"key": KEY, "window": timedelta(seconds=1)},
        {"key": KEY, "max_running": True},
        {"key": KEY, "max_running": 4.0},
        {"key": KEY, "weight": 0},
        {"key": " "},
    ],
)
def test_a_policy_that_breaks_a_rule_cannot_be_built(row: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        LimitPolicy(**row)


def test_a_status_is_read_from_a_row_of_the_view() -> None:
    row = {
        "key": KEY,
        "max_running": 4,
        "max_starts": 100,
        "rate_window": timedelta(minutes=1),
        "weight": 2,
        "running": 3,
        "waiting": 7,
        "blocked": 1,
        "starts": 99,
        "next_start_at": datetime(2026, 1, 1, tzinfo=UTC),
        "owner": '{"cluster": "c", "namespace": "team-a", "name": "vendor-x", "uid": "u", "generation": 3}',
        "a_column_of_a_later_release": 1,
    }
    status = LimitStatus.model_validate(row)
    assert LimitPolicy.model_validate(status.model_dump(exclude={"owner"})) == policy(FULL)
    assert status.owner == Owner(cluster="c", namespace="team-a", name="vendor-x", uid="u")
    assert (status.running, status.waiting, status.blocked, status.starts) == (3, 7, 1, 99)
    shown = status.model_dump(mode="json")
    assert (shown["window"], shown["next_start_at"]) == ("1m", "2026-01-01T00:00:00Z")
    assert LimitStatus.model_validate_json(status.model_dump_json()) == status
