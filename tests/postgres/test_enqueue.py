"""Enqueue: what is stored, whose word counts, and that SQL and Python do the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg
import pytest
from pydantic import BaseModel

from tests.postgres.claimants import Claimant, blocked
from tidegate import App, Channel, ConfigurationError, EnqueuedJob, InvalidJob, InvalidPayload, Router
from tidegate.store.engine import Engine
from tidegate.store.jobs import job_status
from tidegate.store.queues import set_queue

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

Connect: TypeAlias = Callable[..., Awaitable[Connection]]

FUTURE = datetime(2100, 1, 2, 3, 4, 5, 6, tzinfo=UTC)


class Picture(BaseModel):
    name: str
    taken: datetime


router = Router()


@router.actor(channel=Channel("video"))
async def transcode(video_id: str, *, at: datetime | None = None, picture: Picture | None = None) -> None: ...


@router.actor(channel="video", name="strict one", priority=7, max_attempts=3, timeout=timedelta(minutes=3))
def strict(identity: UUID) -> None: ...


app = App(routers=[router])


@pytest.fixture
async def own(database_url: str) -> AsyncIterator[App]:
    """An app with a pool of its own."""
    async with App(database_url) as app:
        yield app


async def row(connection: Connection, job: EnqueuedJob) -> dict[str, Any]:
    found = await connection.fetchrow("select * from tidegate.jobs where id = $1", job.id)
    assert found is not None
    return dict(found)


async def test_every_option_is_stored(connection: Connection) -> None:
    enqueuer = transcode.using(
        session=connection,
        limit_key="vendor x",
        group_key="tenant 7",
        priority=-5,
        run_at=FUTURE,
        expires=FUTURE + timedelta(days=1),
        queue="elsewhere",
        max_attempts=9,
        timeout=timedelta(minutes=90, microseconds=1),
        job_key="v1",
        headers={"trace": "a\"b'c\\ü"},
    )
    job = await enqueuer.enqueue("v1", at=FUTURE, picture=Picture(name="a", taken=FUTURE))
    assert job.created
    stored = await row(connection, job)
    wanted = {
        "queue": "elsewhere",
        "actor": "transcode",
        "limit_key": "vendor x",
        "group_key": "tenant 7",
        "priority": -5,
        "run_at": FUTURE,
        "state": "scheduled",
        "expires_at": FUTURE + timedelta(days=1),
        "max_attempts": 9,
        "timeout": timedelta(minutes=90, microseconds=1),
        "job_key": "v1",
    }
    assert {name: stored[name] for name in wanted} == wanted
    assert json.loads(stored["headers"]) == {"trace": "a\"b'c\\ü"}
    bound = transcode.data.bind(stored["payload"])
    assert bound == {"video_id": "v1", "at": FUTURE, "picture": Picture(name="a", taken=FUTURE)}
    assert stored["bytes"] == len(stored["payload"].encode())


async def test_many_are_stored_with_the_same_options_in_order(connection: Connection) -> None:
    options: dict[str, Any] = {
        "limit_key": "vendor x",
        "group_key": "",
        "priority": 3,
        "delay": timedelta(hours=1),
        "expires": timedelta(hours=2),
        "max_attempts": 9,
        "timeout": timedelta(seconds=1.5),
        "headers": {"trace": "ü"},
    }
    transaction = connection.transaction()
    await transaction.start()
    single = await transcode.using(session=connection, **options).enqueue("v0")
    many = await transcode.using(session=connection, **options).enqueue_many({"video_id": f"v{n}"} for n in range(3))
    await transaction.commit()
    assert [job.created for job in many] == [True] * 3
    assert [job.id for job in many] == sorted(job.id for job in many)
    first, *others = [await row(connection, job) for job in (single, *many)]
    for number, other in enumerate(others):
        assert json.loads(other["payload"]) == {"video_id": f"v{number}"}
        assert abs(other["expires_at"] - other["run_at"] - timedelta(hours=1)) < timedelta(seconds=5)
        assert abs(other["run_at"] - first["run_at"]) < timedelta(seconds=5)
        different = {"id", "payload", "run_at", "expires_at", "created_at"}
        assert {name: value for name, value in other.items() if name not in different} == {
            name: value for name, value in first.items() if name not in different
        }


async def test_precedence_is_using_then_actor_then_queue_then_built_in(connection: Connection) -> None:
    async def resolved(job: EnqueuedJob) -> tuple[int, int, timedelta | None]:
        stored = await row(connection, job)
        return stored["priority"], stored["max_attempts"], stored["timeout"]

    identity = UUID(int=1)
    minute = timedelta(minutes=1)
    using = strict.using(session=connection)
    assert await resolved(await transcode.using(session=connection).enqueue("v")) == (0, 5, None)
    assert await resolved(await using.enqueue(identity)) == (7, 3, 3 * minute)
    await set_queue(connection, "video", {"default_priority": 2, "default_max_attempts": 8, "default_timeout": 60})
    assert await resolved(await transcode.using(session=connection).enqueue("v")) == (2, 8, minute)
    assert await resolved(await using.enqueue(identity)) == (7, 3, 3 * minute)
    own = using.using(priority=0, max_attempts=1, timeout=9 * minute)
    assert await resolved(await own.enqueue(identity)) == (0, 1, 9 * minute)
    # the defaults are those of the queue that the job goes to
    assert await resolved(await transcode.using(session=connection, queue="plain").enqueue("v")) == (0, 5, None)
    [many] = await transcode.using(session=connection).enqueue_many([{"video_id": "v"}])
    assert await resolved(many) == (2, 8, minute)
    [many] = await using.enqueue_many([{"identity": identity}])
    assert await resolved(many) == (7, 3, 3 * minute)


async def test_a_job_key_names_one_job_of_a_queue_while_it_waits_or_runs(
    connection: Connection, claimants: list[Claimant]
) -> None:
    x = App().actor(channel="a", name="x")(strict.data.function)
    keyed = x.using(session=connection, job_key="once")
    identity = UUID(int=1)
    first = await keyed.enqueue(identity)
    assert first.created
    assert await keyed.using(priority=5).enqueue(UUID(int=2)) == EnqueuedJob(first.id, created=False)
    assert (await row(connection, first))["priority"] == 0
    other = await keyed.using(queue="b").enqueue(identity)
    assert other.created
    rows = await claimants[0].claim("a")
    assert [job["id"] for job in rows] == [first.id]
    assert await keyed.enqueue(identity) == EnqueuedJob(first.id, created=False)
    await claimants[0].ack(rows)
    again = await keyed.enqueue(identity)
    assert again.created
    assert again.id > first.id


@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_a_job_key_in_an_open_transaction_is_waited_for(
    connection: Connection, connect: Connect, end: str
) -> None:
    keyed = transcode.using(job_key="once")
    other = await connect()
    transaction = connection.transaction()
    await transaction.start()
    first = await keyed.using(session=connection).enqueue("v1")
    second = asyncio.create_task(keyed.using(session=other).enqueue("v2"))
    await blocked(connection, other.get_server_pid())
    await getattr(transaction, end)()
    if end == "commit":
        assert await second == EnqueuedJob(first.id, created=False)
    else:
        assert (await second).created
    assert await connection.fetchval("select count(*) from tidegate.jobs") == 1


async def test_a_job_key_cannot_go_with_many(connection: Connection) -> None:
    with pytest.raises(InvalidJob, match="job_key names one job"):
        await transcode.using(session=connection, job_key="k").enqueue_many([{"video_id": "v"}])


async def test_times_are_the_databases(connection: Connection) -> None:
    now = await connection.fetchval("select clock_timestamp()")
    later = await row(connection, await transcode.using(session=connection, delay=timedelta(minutes=1)).enqueue("v"))
    assert later["state"] == "scheduled"
    assert timedelta(minutes=1) <= later["run_at"] - now < timedelta(minutes=1, seconds=9)
    ready = await row(connection, await transcode.using(session=connection, delay=timedelta(0)).enqueue("v"))
    assert ready["state"] == "ready"
    past = await row(connection, await transcode.using(session=connection, run_at=now - timedelta(days=1)).enqueue("v"))
    assert past["state"] == "ready"
    expiring = transcode.using(session=connection, expires=timedelta(seconds=90))
    brief = await row(connection, await expiring.enqueue("v"))
    assert timedelta(seconds=90) <= brief["expires_at"] - now < timedelta(seconds=99)


async def test_without_a_session_the_job_is_committed_when_the_call_returns(connection: Connection, own: App) -> None:
    handle = own.actor(channel="video")(transcode.data.function)
    job = await handle.enqueue("v1")
    assert (await row(connection, job))["actor"] == "transcode"
    many = await handle.using(limit_key="k").enqueue_many({"video_id": f"v{n}"} for n in range(10))
    assert len({each.id for each in many}) == 10
    assert await connection.fetchval("select count(*) from tidegate.jobs where limit_key = 'k'") == 10


async def test_many_without_a_session_are_all_or_none(
    connection: Connection, own: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.store.senders.ROWS", 3)
    handle = own.actor(channel="video")(transcode.data.function)
    with pytest.raises(InvalidPayload, match=r"^\[7\]\.video_id does not fit actor 'transcode'"):
        await handle.enqueue_many({"video_id": f"v{n}" if n < 7 else n} for n in range(10))
    assert await connection.fetchval("select count(*) from tidegate.jobs") == 0
    jobs = await handle.enqueue_many({"video_id": f"v{n}"} for n in range(10))
    payloads = [json.loads((await row(connection, job))["payload"])["video_id"] for job in jobs]
    assert payloads == [f"v{n}" for n in range(10)]
    assert await handle.enqueue_many([]) == []


async def test_many_are_sent_in_few_statements_however_large_they_are(
    connection: Connection, own: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = own.actor(channel="video")(transcode.data.function)
    await handle.enqueue_many({"video_id": f"v{n}"} for n in range(10_001))
    assert await connection.fetchval("select count(*) from tidegate.lane_mail") == 3
    monkeypatch.setattr("tidegate.store.senders.CHARACTERS", 100_000)
    await handle.enqueue_many({"video_id": "v" * 60_000} for _ in range(7))
    assert await connection.fetchval("select count(*) from tidegate.lane_mail") == 3 + 4


async def test_the_payloads_size_is_the_apps(connection: Connection, database_url: str) -> None:
    function = transcode.data.function
    small = App(max_payload_bytes=100).actor(channel="video")(function).using(session=connection)
    with pytest.raises(InvalidPayload, match="payload must have at most 100 bytes as JSON; this one has 116"):
        await small.enqueue("v" * 100)
    usual = App().actor(channel="video")(function).using(session=connection)
    envelope = len('{"video_id": ""}')
    await usual.enqueue("v" * (1024 * 1024 - envelope))
    with pytest.raises(InvalidPayload, match="1048577"):
        await usual.enqueue("v" * (1024 * 1024 - envelope + 1))
    await connection.execute("select tidegate.set_max_payload_bytes(5000000)")
    async with App(database_url, max_payload_bytes=5_000_000) as app:
        large = app.actor(channel="video")(function)
        for session in (None, connection):
            job = await large.using(session=session).enqueue("ü" * 2_000_000)
            assert (await row(connection, job))["bytes"] == 4_000_000 + envelope
            [job] = await large.using(session=session).enqueue_many([{"video_id": "ü" * 600_000}])
            assert (await row(connection, job))["bytes"] == 1_200_000 + envelope


async def test_mail_tells_how_many_jobs_each_lane_got_and_which_is_first(connection: Connection) -> None:
    """Of one job, a few and many; of one instant and priority, or of several; jobs for later as one sum."""
    insert = """
        insert into tidegate.jobs(queue, actor, limit_key, group_key, priority, run_at, state, payload)
        select 'q' || g % 2, 'x' || g % 3, 'k' || g % 5, 'g' || g % 7, case when $2 then (g * 7919) % 4 else 0 end,
               now() - case when $2 then (g * 104729) % 3 else 1 end * interval '1 s'
                 + case when g % 10 = 0 then interval '1 day' else '0' end,
               case when g % 10 = 0 then 'scheduled' else 'ready' end, jsonb_build_object('a', repeat('x', g % 9))
          from generate_series(1, $1::int) g"""
    differing = """
        with ready as (
          select queue, group_key, limit_key, actor, count(*)::int ready,
                 (array_agg(row(-priority::int, run_at, id) order by -priority::int, run_at, id))[1]::text place
            from tidegate.jobs where state = 'ready' group by 1, 2, 3, 4),
        later as (
          select queue, null, null, null, count(*)::int, row(min(run_at), min(id))::text
            from tidegate.jobs where state = 'scheduled' group by 1),
        mail as (
          select queue, group_key, limit_key, actor, ready,
                 case when actor is null then row(run_at, id)::text else row(neg, run_at, id)::text end
            from tidegate.lane_mail)
        select count(*) from
          ((table ready union all table later) except all table mail
           union all (table mail except all (table ready union all table later))) z"""
    for jobs in (1, 0, 2, 10, 5_000):
        for several in (False, True):
            await connection.execute(insert, jobs, several)
            assert await connection.fetchval(differing) == 0, (jobs, several)
            await connection.execute("delete from tidegate.jobs")
            await connection.execute("delete from tidegate.lane_mail")


async def test_how_large_a_payload_may_be_is_the_operators_decision(connection: Connection, database_url: str) -> None:
    """Neither a setting of the session nor the app raises what the database allows."""
    await connection.execute("set tidegate.max_payload_bytes = '100000000'")
    filler = "x" * (1024 * 1024)
    calls = (
        "select tidegate.enqueue('a', 'x', jsonb_build_object('a', $1::text))",
        "insert into tidegate.jobs(queue, actor, payload) values ('a', 'x', jsonb_build_object('a', $1::text))",
    )
    for call in calls:
        with pytest.raises(asyncpg.InvalidParameterValueError, match="payload: 1048585 bytes, at most 1048576 are"):
            await connection.execute(call, filler)
    async with App(database_url, max_payload_bytes=5_000_000) as app:
        large = app.actor(channel="video")(transcode.data.function)
        with pytest.raises(InvalidJob, match="at most 1048576 are allowed"):
            await large.enqueue(filler)
        with pytest.raises(InvalidJob, match="at most 1048576 are allowed"):
            await large.enqueue_many([{"video_id": filler}, {"video_id": "v"}])
    assert await connection.fetchval("select tidegate.set_max_payload_bytes(1024)") == 1024 * 1024
    with pytest.raises(asyncpg.InvalidParameterValueError, match="payload: 1033 bytes, at most 1024 are"):
        await connection.execute(calls[0], "x" * 1024)
    await connection.execute(calls[0], "x" * (1024 - len('{"a": ""}')))
    for bytes_ in (1023, 256 * 1024 * 1024 + 1, None):
        with pytest.raises(asyncpg.InvalidParameterValueError, match="bytes: must lie between 1024 and 268435456"):
            await connection.execute("select tidegate.set_max_payload_bytes($1)", bytes_)


async def test_sql_stores_what_python_stores(connection: Connection) -> None:
    """The row of each call, apart from what tells two jobs apart."""
    options: dict[str, Any] = {
        "limit_key": "vendor x",
        "group_key": "g",
        "priority": 4,
        "run_at": FUTURE,
        "max_attempts": 6,
        "timeout": timedelta(seconds=90),
        "headers": {"a": "b"},
    }
    python = await transcode.using(session=connection, **options).enqueue("v1")
    sql = await connection.fetchrow(
        """select * from tidegate.enqueue('video', 'transcode', '{"video_id": "v1"}', limit_key => 'vendor x',
             group_key => 'g', priority => 4, run_at => $1, max_attempts => 6, timeout => '90 s',
             headers => '{"a": "b"}')""",
        FUTURE,
    )
    many = await connection.fetchrow(
        """select * from tidegate.enqueue_many(jsonb_build_array('{"queue": "video", "actor": "transcode",
             "payload": {"video_id": "v1"}, "limit_key": "vendor x", "group_key": "g", "priority": 4,
             "max_attempts": 6, "timeout": 90, "headers": {"a": "b"}}'
             || jsonb_build_object('run_at', $1::timestamptz)))""",
        FUTURE,
    )
    assert sql is not None
    assert many is not None
    rows = [await row(connection, EnqueuedJob(number, created=True)) for number in (python.id, sql["id"], many["id"])]
    for stored in rows:
        for name in ("id", "created_at"):
            del stored[name]
    assert rows[0] == rows[1] == rows[2]
    plain = await transcode.using(session=connection).enqueue("v1")
    sql = await connection.fetchrow("select * from tidegate.enqueue('video', 'transcode', '{\"video_id\": \"v1\"}')")
    assert sql is not None
    rows = [await row(connection, EnqueuedJob(number, created=True)) for number in (plain.id, sql["id"])]
    for stored in rows:
        for name in ("id", "created_at", "run_at"):
            del stored[name]
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("call", "field"),
    [
        ("tidegate.enqueue(' video', 'x')", "queue"),
        ("tidegate.enqueue('video', '')", "actor"),
        ("tidegate.enqueue('video', 'x', limit_key => E'a\\n')", "limit_key"),
        ("tidegate.enqueue('video', 'x', group_key => ' ')", "group_key"),
        ("tidegate.enqueue('video', 'x', job_key => repeat('x', 201))", "job_key"),
        ("tidegate.enqueue('video', 'x', priority => 40000)", "priority"),
        ("tidegate.enqueue('video', 'x', max_attempts => 0)", "max_attempts"),
        ("tidegate.enqueue('video', 'x', timeout => '0 s')", "timeout"),
        ("tidegate.enqueue('video', 'x', run_at => now(), delay => '1 s')", "delay"),
        ("tidegate.enqueue('video', 'x', jsonb_build_object('a', repeat('x', 1048576)))", "payload"),
        ("tidegate.enqueue('video', 'x', headers => jsonb_build_object('a', repeat('x', 8192)))", "headers"),
        (
            """tidegate.enqueue_many('[{"queue": "video", "actor": "x"}, {"queue": "video", "limitkey": "k"}]')""",
            "limitkey",
        ),
        ("""tidegate.enqueue_many('[{"queue": "video", "actor": "x", "job_key": "k", "delay_ms": 5}]')""", "delay_ms"),
    ],
)
async def test_sql_refuses_what_python_refuses(connection: Connection, call: str, field: str) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match=f"^tidegate: {field}: "):
        await connection.fetch(f"select * from {call}")  # noqa: S608 - calls of the list above
    assert await connection.fetchval("select count(*) from tidegate.jobs") == 0


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
async def test_enqueue_works_at_any_isolation(database_url: str, connection: Connection, isolation: str) -> None:
    name = await connection.fetchval("select quote_ident(current_database())")
    await connection.execute(f"alter database {name} set default_transaction_isolation = '{isolation}'")
    async with App(database_url) as app:
        handle = app.actor(channel="video")(transcode.data.function)
        first = await handle.using(job_key="k").enqueue("v")
        assert await handle.using(job_key="k").enqueue("v") == EnqueuedJob(first.id, created=False)
        assert len(await handle.enqueue_many([{"video_id": "v"}] * 2)) == 2


async def test_what_is_shown_of_a_job_is_what_was_enqueued(engine: Engine, connection: Connection) -> None:
    job = await transcode.using(session=connection, headers={"a": "b"}, timeout=timedelta(days=40)).enqueue(
        "v", at=FUTURE
    )
    status = await job_status(engine, job.id)
    assert status.headers == {"a": "b"}
    assert status.timeout == timedelta(days=40)
    assert status.payload is not None
    assert transcode.data.bind(status.payload) == {"video_id": "v", "at": FUTURE}
    assert "video_id" not in repr(status)


def test_an_app_outlives_event_loops_but_serves_one_at_a_time(database_url: str) -> None:
    app = App(database_url)
    handle = app.actor(channel="video")(transcode.data.function)

    async def enqueue_and_close() -> int:
        job = await handle.enqueue("v")
        with pytest.raises(ConfigurationError, match="another event loop"):
            await asyncio.to_thread(asyncio.run, handle.enqueue("v"))
        # from the thread of a synchronous actor, say
        loop = asyncio.get_running_loop()
        other = await asyncio.to_thread(
            lambda: asyncio.run_coroutine_threadsafe(handle.enqueue("v"), loop).result(timeout=10)
        )
        assert other.id != job.id
        await app.close()
        return job.id

    assert asyncio.run(enqueue_and_close()) != asyncio.run(enqueue_and_close())
