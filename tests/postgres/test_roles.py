"""A role may do the part of the work that it was granted, and nothing else."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from secrets import token_hex
from typing import Any

import asyncpg
import pytest

from tests.postgres.claimants import Claimant, MakeConnection
from tidegate.store.engine import Engine
from tidegate.store.migrating import schema_state

REFUSED = asyncpg.InsufficientPrivilegeError
ENQUEUE = "select id from tidegate.enqueue('a', 'x', limit_key => 'k')"
SET_LIMIT = """select * from tidegate.change_limit('k', '{"max_running": 1}')"""


@pytest.fixture
async def part(connection: Any, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    role = f"tidegate_test_{token_hex(4)}"
    await connection.execute(f"create role {role}")
    if request.param:
        await connection.execute("select tidegate.grant_access($1, $2)", role, request.param)
    yield role
    await connection.execute("reset role")
    await connection.execute(f"drop owned by {role}; drop role {role}")


async def refused(connection: Any, *statements: str) -> None:
    for statement in statements:
        with pytest.raises(REFUSED):
            await connection.execute(statement)


@pytest.mark.parametrize("part", [""], indirect=True)
async def test_nobody_may_anything_that_was_not_granted(connection: Any, part: str) -> None:
    await connection.execute(f"grant usage on schema tidegate to {part}")
    calls = await connection.fetch(
        "select p.proname from pg_proc p where pronamespace = 'tidegate'::regnamespace"
        " and has_function_privilege($1, p.oid, 'execute')",
        part,
    )
    assert [row["proname"] for row in calls] == ["lane_of"]
    await connection.execute(f"set role {part}")
    await refused(connection, ENQUEUE, SET_LIMIT, "select * from tidegate.jobs", "select * from tidegate.limits")


@pytest.mark.parametrize("part", ["producer"], indirect=True)
async def test_a_producer_enqueues_and_forges_nothing(connection: Any, part: str) -> None:
    await connection.execute(f"set role {part}")
    await connection.execute(ENQUEUE)
    await connection.execute(
        "select * from tidegate.enqueue_many($1)", json.dumps([{"queue": "a", "actor": "x", "limit_key": "k"}] * 2)
    )
    await connection.execute("insert into tidegate.jobs(queue, actor, limit_key) values ('a', 'x', 'k')")
    await connection.copy_records_to_table(
        "jobs", schema_name="tidegate", columns=["queue", "actor", "limit_key"], records=[("a", "x", "k")]
    )
    await refused(
        connection,
        SET_LIMIT,
        "select * from tidegate.jobs",
        "delete from tidegate.jobs",
        "insert into tidegate.jobs(queue, actor, worker) values ('a', 'x', gen_random_uuid())",
        "insert into tidegate.lane_mail(queue, group_key, limit_key, actor, ready) values ('a', 'k', 'k', 'x', -5)",
        "select tidegate.cancel(1)",
        "select tidegate.set_max_payload_bytes(5000000)",
        "update tidegate.settings set max_payload_bytes = 5000000",
        "select * from tidegate.recount(true)",
    )
    await connection.execute("reset role")
    worker = Claimant(connection)
    await worker.register()
    assert len(await worker.claim("a", 8)) == 5
    assert await worker.drift() == []


@pytest.mark.parametrize("part", ["observer"], indirect=True)
async def test_an_observer_reads_policies_and_counts_and_no_job(connection: Any, part: str) -> None:
    await connection.execute(SET_LIMIT)
    await connection.execute(f"set role {part}")
    assert await connection.fetchval("select key from tidegate.limit_status") == "k"
    assert await connection.fetch("select * from tidegate.queue_status") == []
    assert await connection.fetch("select * from tidegate.queue_demand") == []
    await refused(connection, ENQUEUE, SET_LIMIT, "select payload from tidegate.job_status", "table tidegate.jobs")


@pytest.mark.parametrize("part", ["operator"], indirect=True)
async def test_an_operator_changes_limits_queues_and_jobs(connection: Any, part: str) -> None:
    await connection.execute(f"set role {part}")
    await connection.execute(SET_LIMIT)
    await connection.execute("select tidegate.clear_limit('k')")
    await connection.execute("select tidegate.set_max_payload_bytes(5000000)")
    await connection.execute("""select tidegate.set_queue('a', '{"suspended": true}')""")
    job = await connection.fetchval(ENQUEUE)
    assert await connection.fetchval("select tidegate.cancel($1)", job) == "cancelled"
    assert await connection.fetchval("select tidegate.retry($1)", job) == "ready"
    assert await connection.fetchval("select state from tidegate.job_status") == "ready"
    await refused(
        connection, "delete from tidegate.jobs", "update tidegate.keys set running = 0", "drop schema tidegate"
    )


@pytest.mark.parametrize("part", ["worker"], indirect=True)
async def test_a_worker_needs_no_more_than_its_part(
    connection: Any, connect: MakeConnection, part: str, database_url: str
) -> None:
    await connection.execute(SET_LIMIT)
    other = await connect()
    await connection.execute(f"set role {part}")
    one = Claimant(connection)
    await one.register()
    await one.put("a", "k", 3)
    await connection.execute("select tidegate.sleep_on($1, '{a}')", one.id)
    await connection.fetch("select * from tidegate.probe('{a}', '{x}')")
    rows = await one.claim("a", 2)
    await connection.fetch("select * from tidegate.heartbeat($1, $2, $3, 100, true)", one.id, [], [])
    await one.nack(rows)
    rows = await one.claim("a", 2)
    await one.release(rows)
    rows = await one.claim("a", 2)
    await one.ack(rows)
    await connection.fetch("select * from tidegate.rescue($1)", one.id)
    await connection.execute("call tidegate.maintain($1)", one.id)
    await connection.fetch("select * from tidegate.leave($1)", one.id)
    await refused(connection, SET_LIMIT, "select tidegate.clear_limit('k')", "update tidegate.jobs set state = 'ready'")
    assert await Claimant(other).drift() == []


async def test_an_unknown_part_is_named(connection: Any) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match="none of producer, observer, operator, worker"):
        await connection.execute("select tidegate.grant_access('postgres', 'reader')")


@pytest.mark.parametrize("part", ["worker"], indirect=True)
async def test_the_schema_is_checked_with_a_workers_rights(connection: Any, part: str, database_url: str) -> None:
    await connection.execute(f"alter role {part} login password 'mine'")
    name, host = database_url.split("@", 1)
    engine = Engine(f"{name.split('://')[0]}://{part}:mine@{host}", max_size=1)
    try:
        assert (await schema_state(engine)).current
    finally:
        await engine.close()


@pytest.mark.parametrize("part", ["producer", "worker"], indirect=True)
@pytest.mark.parametrize("way", ["INSERT", "COPY"])
async def test_the_first_thing_of_a_session_may_be_a_plain_insert(
    connection: Any, connect: MakeConnection, part: str, way: str
) -> None:
    fresh = await connect()
    await fresh.execute(f"set role {part}")
    if way == "INSERT":
        await fresh.execute("insert into tidegate.jobs(queue, actor) values ('a', 'x')")
    else:
        await fresh.copy_records_to_table(
            "jobs", schema_name="tidegate", columns=["queue", "actor"], records=[("a", "x")]
        )
    await fresh.close()
    assert await connection.fetchval("select count(*) from tidegate.jobs") == 1
