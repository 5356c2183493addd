"""The database judges names, limits, queues and jobs as the model does: one table of examples, errors of one form."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from tests.examples_table import LIMIT_CHANGES, NAMES, QUEUE_OBJECTS

ENQUEUE = "select * from tidegate.enqueue('q', 'x', "
CHANGE = "select * from tidegate.change_limit('k', $1)"
NAMED = {
    "key": """select * from tidegate.change_limit($1, '{"max_running": 1}')""",
    "queue": "select * from tidegate.set_queue($1, '{}')",
    "queue of a job": "select * from tidegate.enqueue($1, 'x')",
    "actor": "select * from tidegate.enqueue('q', $1)",
    "job_key": "select * from tidegate.enqueue('q', 'x', job_key => $1)",
    "limit_key": "select * from tidegate.enqueue('q', 'x', limit_key => $1)",
    "group_key": "select * from tidegate.enqueue('q', 'x', group_key => $1)",
    "limit_key of COPY": "insert into tidegate.jobs(queue, actor, limit_key) values ('q', 'x', $1)",
}
BAD_QUEUES: list[dict[str, object]] = [
    {"default_timeout": 0},
    {"default_timeout": -1},
    {"keep_dead": -1},
    {"default_priority": 32768},
    {"default_max_attempts": 0},
    {"default_max_attempts": 1.5},
    {"order": "Fair"},
    {"suspended": "yes"},
    {"colour": 1},
]
BAD_JOBS = [
    "priority => 32768",
    "max_attempts => 0",
    "max_attempts => 1001",
    "timeout => '0'",
    "timeout => '-1 s'",
    "timeout => '170000000 years'",
    "run_at => '11026-01-01'",
    "run_at => 'infinity'",
    "run_at => '-infinity'",
    "expires_at => '0044-03-15 BC'",
    "expires_at => 'infinity'",
    "delay => '-1 s'",
    "run_at => now(), delay => '0'",
    """headers => '{"a": 1}'""",
    "headers => '[]'",
    "headers => jsonb_build_object('a', repeat('x', 8184))",
    "payload => '[]'",
    "payload => '1'",
    "payload => jsonb_build_object('a', repeat('x', 1048568))",
    "payload => ('{\"a\": ' || repeat('[', 64) || repeat(']', 64) || '}')::jsonb",
]
GOOD_JOBS = [
    "payload => null",
    "delay => '0'",
    "timeout => '1 us'",
    "headers => jsonb_build_object('a', repeat('x', 8183))",
    "payload => jsonb_build_object('a', repeat('x', 1048567))",
    "payload => ('{\"a\": ' || repeat('[', 63) || repeat(']', 63) || '}')::jsonb",
]


async def judged(connection: Any, sql: str, *args: object) -> str | None:
    """Run a statement and undo it; None where it was accepted, else our message. Any other error is a failure."""
    message: str | None = None
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.fetch(sql, *args)
    except asyncpg.InvalidParameterValueError as refusal:
        message = str(refusal)
    finally:
        await transaction.rollback()
    assert message is None or message.startswith("tidegate: ")
    return message


@pytest.mark.parametrize("what", NAMED)
async def test_names(connection: Any, what: str) -> None:
    judged_alike = 0
    for name in NAMES:
        if not name.fits_a_connection or (name.value == "" and what.startswith(("limit_key", "group_key"))):
            continue
        refusal = await judged(connection, NAMED[what], name.value)
        assert (refusal is None) == name.good, (name.label, refusal)
        judged_alike += 1
    assert judged_alike > 10


def as_changes(change: Any) -> dict[str, object]:
    return {("window_ms" if part == "window" else part): value for part, value in change.items()}


async def test_limits(connection: Any) -> None:
    for case in LIMIT_CHANGES:
        try:
            change = json.dumps(as_changes(case.change), allow_nan=False)
        except ValueError:
            continue
        transaction = connection.transaction()
        await transaction.start()
        try:
            if case.before:
                await connection.fetch(CHANGE, json.dumps(as_changes(case.before)))
            refusal = await judged(connection, CHANGE, change)
            if case.refused is not None:
                assert refusal is not None, case.label
                assert refusal.startswith(f"tidegate: {case.refused}: "), (case.label, refusal)
                continue
            assert refusal is None, (case.label, refusal)
            row = await connection.fetchrow(CHANGE, change)
            after = {part: row[part] for part in ("max_running", "max_starts", "weight") if row[part] is not None}
            if row["rate_window"] is not None:
                after["window"] = round(row["rate_window"] / timedelta(milliseconds=1), 6)
            assert after == dict(case.after), case.label
        finally:
            await transaction.rollback()


async def test_queues(connection: Any) -> None:
    for case in QUEUE_OBJECTS:
        if case.row:
            change = json.dumps({part: value for part, value in case.row.items() if part != "name"})
            assert await judged(connection, "select * from tidegate.set_queue('q', $1)", change) is None, case.label
    for bad in BAD_QUEUES:
        refusal = await judged(connection, "select * from tidegate.set_queue('q', $1)", json.dumps(bad))
        assert refusal is not None, bad
        assert refusal.startswith(f"tidegate: {next(iter(bad))}: "), refusal


@pytest.mark.parametrize("argument", BAD_JOBS)
async def test_bad_jobs_are_refused_and_named(connection: Any, argument: str) -> None:
    refusal = await judged(connection, ENQUEUE + argument + ")")
    assert refusal is not None
    assert refusal.split(": ")[1] in argument


@pytest.mark.parametrize("argument", GOOD_JOBS)
async def test_good_jobs_are_taken(connection: Any, argument: str) -> None:
    assert await judged(connection, ENQUEUE + argument + ")") is None


async def test_many_jobs_are_judged_like_one(connection: Any) -> None:
    many = "select * from tidegate.enqueue_many($1)"
    job = {"queue": "q", "actor": "x"}
    bads: list[dict[str, object]] = [
        {"priority": 40000},
        {"max_attempts": 0},
        {"delay": -1},
        {"run_at": "2026-01-01T00:00:00Z", "delay": 1},
        {"queue": None},
        {"actor": None},
        {"payload": []},
        {"timeout": 0},
        {"limit_key": " k"},
    ]
    for bad in bads:
        assert await judged(connection, many, json.dumps([job, {**job, **bad}])) is not None, bad
    assert await judged(connection, many, json.dumps([job, job])) is None
    assert await connection.fetchval("select count(*) from tidegate.jobs") == 0


async def test_a_forged_running_row_is_refused(connection: Any) -> None:
    for column, value in (("state", "running"), ("attempt", "3"), ("lost", "1")):
        forged = json.dumps({"queue": "q", "actor": "x", column: value})
        insert = f"insert into tidegate.jobs(queue, actor, {column}) select queue, actor, {column} from"
        refusal = await judged(connection, f"{insert} jsonb_populate_record(null::tidegate.jobs, $1)", forged)
        assert refusal is not None
    later = "insert into tidegate.jobs(queue, actor, run_at) values ('q', 'x', now() + interval '1 h')"
    assert await judged(connection, later) == "tidegate: run_at: a job for later needs state scheduled"
