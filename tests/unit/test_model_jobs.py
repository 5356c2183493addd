"""Job options: bounds, times, precedence, and what is shown of a job."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples_table import NAMES, Text
from tidegate.errors import InvalidInput, InvalidJob, InvalidName
from tidegate.model.durations import MAX_DURATION
from tidegate.model.jobs import JobOptions, JobState, JobStatus

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "limit_key": st.sampled_from(["", "a", "b"]),
        "group_key": st.sampled_from(["", "a", "b"]),
        "priority": st.integers(-32768, 32767),
        "expires": st.sampled_from([MINUTE, NOON]),
        "queue": st.sampled_from(["q", "r"]),
        "max_attempts": st.integers(1, 1000),
        "timeout": st.timedeltas(timedelta(microseconds=1), timedelta(days=1)),
        "job_key": st.sampled_from(["j", "k"]),
        "headers": st.sampled_from([{}, {"a": "b"}]),
    },
)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"limit_key": "", "group_key": ""},
        {"priority": -32768},
        {"priority": 32767},
        {"max_attempts": 1},
        {"max_attempts": 1000},
        {"run_at": NOON},
        {"run_at": datetime.max.replace(tzinfo=UTC)},
        {"delay": timedelta(0)},
        {"delay": MINUTE, "expires": NOON},
        {"run_at": NOON, "expires": MINUTE},
        {"timeout": timedelta(microseconds=1)},
        {"headers": {"a": "b"}},
    ],
    ids=str,
)
def test_legal_options(options: dict[str, Any]) -> None:
    job = JobOptions(**options)
    for field in job.__dataclass_fields__:
        assert getattr(job, field) == options.get(field)


@pytest.mark.parametrize(
    ("options", "field", "rule"),
    [
        ({"priority": 32768}, "priority", "must be an integer from -32768 to 32767; got 32768"),
        ({"priority": -32769}, "priority", "must be an integer from -32768 to 32767; got -32769"),
        ({"priority": True}, "priority", "must be an integer from -32768 to 32767; got bool"),
        ({"priority": 1.0}, "priority", "must be an integer from -32768 to 32767; got float"),
        ({"max_attempts": 0}, "max_attempts", "must be an integer from 1 to 1000; got 0"),
        ({"max_attempts": 1001}, "max_attempts", "must be an integer from 1 to 1000; got 1001"),
        ({"max_attempts": "5"}, "max_attempts", "must be an integer from 1 to 1000; got str"),
        ({"timeout": timedelta(0)}, "timeout", "must be more than 0; got 0 s"),
        ({"timeout": -MINUTE}, "timeout", "must be more than 0; got -60 s"),
        ({"timeout": 60}, "timeout", "must be a timedelta; got int"),
        ({"timeout": timedelta.max}, "timeout", "must be at most 2562047h47m16s855ms"),
        ({"delay": -MINUTE}, "delay", "must be 0 or more; got -60 s"),
        ({"delay": 60}, "delay", "must be a timedelta; got int"),
        ({"delay": MINUTE, "run_at": NOON}, "delay", "cannot go together with run_at; give one of the two"),
        ({"delay": timedelta(0), "run_at": NOON}, "delay", "cannot go together with run_at; give one of the two"),
        ({"run_at": NOON.replace(tzinfo=None)}, "run_at", "must have a time zone, as in"),
        ({"run_at": date(2026, 1, 1)}, "run_at", "must be a datetime with a time zone; got date"),
        ({"run_at": "2026-01-01T00:00:00Z"}, "run_at", "must be a datetime with a time zone; got str"),
        ({"expires": timedelta(0)}, "expires", "must be more than 0; got 0 s"),
        ({"expires": NOON.replace(tzinfo=None)}, "expires", "must have a time zone, as in"),
        ({"expires": 60}, "expires", "must be a datetime with a time zone or a timedelta from now; got int"),
        ({"headers": [("a", "b")]}, "headers", "must map text to text; got list"),
        ({"headers": {"a": 1}}, "headers", "must map text to text; a value is int"),
    ],
    ids=str,
)
def test_refused_options(options: dict[str, Any], field: str, rule: str) -> None:
    with pytest.raises(InvalidJob) as caught:
        JobOptions(**options)
    assert caught.value.field == field
    assert caught.value.rule.startswith(rule)


@pytest.mark.parametrize("field", ["limit_key", "group_key", "queue", "job_key"])
@pytest.mark.parametrize("case", NAMES, ids=lambda case: case.label)
def test_names(case: Text, field: str) -> None:
    options: dict[str, Any] = {field: case.value}
    empty_is_legal = field in {"limit_key", "group_key"} and not case.value
    if case.good or empty_is_legal:
        assert getattr(JobOptions(**options), field) == case.value
    else:
        with pytest.raises(InvalidName) as caught:
            JobOptions(**options)
        assert caught.value.field == field


@given(OPTIONS, OPTIONS)
def test_what_is_given_wins_over_the_base(own: dict[str, Any], base: dict[str, Any]) -> None:
    assert JobOptions(**own).merged(JobOptions(**base)) == JobOptions(**{**base, **own})


@pytest.mark.parametrize(
    ("own", "base", "run_at", "delay"),
    [
        ({"delay": MINUTE}, {"run_at": NOON}, None, MINUTE),
        ({"run_at": NOON}, {"delay": MINUTE}, NOON, None),
        ({}, {"delay": MINUTE}, None, MINUTE),
        ({}, {"run_at": NOON}, NOON, None),
    ],
)
def test_a_start_time_replaces_the_bases(
    own: dict[str, Any], base: dict[str, Any], run_at: datetime | None, delay: timedelta | None
) -> None:
    merged = JobOptions(**own).merged(JobOptions(**base))
    assert (merged.run_at, merged.delay) == (run_at, delay)


def test_headers_are_copied() -> None:
    headers = {"a": "b"}
    job = JobOptions(headers=MappingProxyType(headers))
    headers["a"] = "changed"
    assert job.headers == {"a": "b"}


def test_every_refusal_is_also_a_value_error_of_ours() -> None:
    with pytest.raises(ValueError, match=r"^priority must ") as caught:
        JobOptions(priority=99_999)
    assert isinstance(caught.value, InvalidInput)


def test_a_status_is_read_from_a_row_of_the_view() -> None:
    row = {
        "id": 17,
        "queue": "mail",
        "actor": "send",
        "state": "dead",
        "limit_key": "vendor-x",
        "group_key": "tenant-1",
        "priority": 5,
        "run_at": NOON,
        "attempt": 5,
        "max_attempts": 5,
        "timeout": MINUTE,
        "worker": UUID(int=1),
        "claim": 9,
        "lost": 1,
        "created_at": NOON,
        "started_at": NOON,
        "finished_at": NOON,
        "keep_until": NOON,
        "error": "boom",
        "bytes": 24,
        "headers": '{"trace": "00"}',
        "payload": '{"card": "4111"}',
        "a_column_of_a_later_release": 1,
    }
    status = JobStatus.model_validate(row)
    assert status.state is JobState.DEAD
    assert (status.headers, status.payload) == ({"trace": "00"}, {"card": "4111"})
    assert JobStatus.model_validate({**row, "headers": {"trace": "00"}, "payload": {"card": "4111"}}) == status
    assert "4111" not in repr(status)
    shown = status.model_dump(mode="json")
    assert (shown["timeout"], shown["state"], shown["run_at"]) == ("1m", "dead", "2026-01-01T12:00:00Z")


@pytest.mark.parametrize("field", ["run_at", "expires"])
@pytest.mark.parametrize(
    "instant",
    [
        datetime.max.replace(tzinfo=timezone(-timedelta(hours=1))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
    ],
    ids=["year 10000", "year 0"],
)
def test_an_instant_lies_within_the_years_of_python_in_utc_too(field: str, instant: datetime) -> None:
    with pytest.raises(InvalidJob, match=f"{field} must lie within the years 1 to 9999"):
        JobOptions(**{field: instant})  # type: ignore[arg-type]


def test_a_timeout_is_at_most_the_longest_duration() -> None:
    JobOptions(timeout=MAX_DURATION)
    with pytest.raises(InvalidJob, match="timeout must be at most"):
        JobOptions(timeout=MAX_DURATION + MINUTE)
