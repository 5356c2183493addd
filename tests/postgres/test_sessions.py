"""The same calls on every kind of session: in the caller's transaction, and leaving the caller's session as it was."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Any, assert_type

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa
from psycopg.rows import dict_row
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as aio

from tests.postgres.kinds_of_sessions import KINDS, Opener, dialect_url
from tidegate import (
    App,
    ConfigurationError,
    EnqueuedJob,
    InvalidLimit,
    InvalidPayload,
    SchemaOutdated,
    clear_limit,
    list_limits,
    set_limit,
)
from tidegate.model.limits import LimitPolicy, LimitStatus
from tidegate.routing.enqueuers import AsyncEnqueuer, SyncEnqueuer
from tidegate.store.jobs import cancel_job, job_status, list_jobs, retry_job
from tidegate.store.queues import list_queues, resume_queue, set_queue, suspend_queue

app = App()


@app.actor(channel="mail")
async def send_mail(address: str, *, copies: int = 1) -> None:
    """Only enqueued here."""


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Opener:
    opener: Opener = KINDS[request.param]
    return opener


async def numbers(connection: asyncpg.Connection[asyncpg.Record]) -> tuple[int, int]:
    """Jobs and policies that others see."""
    jobs = await connection.fetchval("select count(*) from tidegate.jobs")
    return jobs, await connection.fetchval("select count(*) from tidegate.limits")


async def test_bad_input_sends_nothing_and_a_rollback_removes_everything(
    kind: Opener, database_url: str, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    async with kind(database_url) as opened:
        with pytest.raises(InvalidLimit, match="max_running"):
            set_limit(opened.session, "vendor-x", max_running=-1)
        with pytest.raises(InvalidPayload, match="copies"):
            await opened.result(send_mail.using(session=opened.session).enqueue("a", copies="many"))
        # had anything reached the server and failed, the transaction would be aborted now
        await opened.call(set_limit, "vendor-x", max_running=4)
        enqueuer = send_mail.using(session=opened.session, limit_key="vendor-x")
        job = await opened.result(enqueuer.enqueue("a@example.org"))
        assert job == EnqueuedJob(job.id, created=True)
        many = await opened.result(enqueuer.enqueue_many({"address": f"{n}@example.org"} for n in range(3)))
        assert len({job.id, *(each.id for each in many)}) == 4
        assert await numbers(connection) == (0, 0)
        await opened.rollback()
        assert await numbers(connection) == (0, 0)


async def test_a_commit_keeps_them_and_results_are_plain_values(
    kind: Opener, database_url: str, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    async with kind(database_url) as opened:
        policy = await opened.call(set_limit, "vendor-x", max_running=4, max_starts=7, window=timedelta(minutes=1))
        assert policy == LimitPolicy(key="vendor-x", max_running=4, max_starts=7, window=timedelta(minutes=1))
        job = await opened.result(send_mail.using(session=opened.session, limit_key="vendor-x").enqueue("a", copies=2))
        [status] = await opened.call(list_limits)
        assert (type(status), status.waiting, status.window) == (LimitStatus, 1, timedelta(minutes=1))
        await opened.commit()
    row = await connection.fetchrow("select * from tidegate.jobs")
    assert row is not None
    assert (row["id"], row["queue"], row["actor"], row["limit_key"], row["payload"]) == (
        job.id,
        "mail",
        "send_mail",
        "vendor-x",
        '{"copies": 2, "address": "a"}',
    )
    assert await numbers(connection) == (1, 1)


@pytest.mark.parametrize("name", [name for name in KINDS if "serializable" not in name])
async def test_jobs_and_queues_are_seen_and_changed_the_same_way(name: str, database_url: str) -> None:
    async with KINDS[name](database_url) as opened:
        job = await opened.result(
            send_mail.using(session=opened.session, timeout=timedelta(seconds=1.5)).enqueue("%s :p1 $1 \\ ü 🐘")
        )
        status = await opened.call(job_status, job.id)
        assert (status.state, status.timeout) == ("ready", timedelta(seconds=1.5))
        assert status.payload == {"address": "%s :p1 $1 \\ ü 🐘"}
        assert [each.id for each in await opened.call(list_jobs, states=["ready", "dead"], queue="mail")] == [job.id]
        assert await opened.call(list_jobs, states=["dead"]) == []
        assert await opened.call(cancel_job, job.id) == "cancelled"
        assert await opened.call(retry_job, job.id) == "ready"
        assert (await opened.call(set_queue, "mail", {"order": "fair", "keep_dead": 60})).keep_dead == timedelta(
            minutes=1
        )
        await opened.call(suspend_queue, "mail")
        [queue] = await opened.call(list_queues)
        assert (queue.name, queue.order, queue.held_by_hand) == ("mail", "fair", True)
        await opened.call(resume_queue, "mail")
        assert await opened.call(clear_limit, "unknown") is False
        await opened.rollback()


async def test_only_refusals_are_errors_of_tidegate(kind: Opener, database_url: str) -> None:
    async with kind(database_url) as opened:
        with pytest.raises(InvalidLimit, match="max_starts needs a window") as caught:
            await opened.call(set_limit, "vendor-x", max_starts=7)
        assert caught.value.field == "max_starts"
        with pytest.raises(Exception, match="current transaction is aborted") as passed:
            await opened.call(list_limits)
        assert not type(passed.value).__module__.startswith("tidegate")
        await opened.rollback()


@pytest.mark.parametrize("name", ["asyncpg", "sqlalchemy-AsyncSession-asyncpg", "sqlalchemy-Session", "psycopg-async"])
async def test_a_missing_schema_says_what_to_run(name: str, empty_database_url: str) -> None:
    async with KINDS[name](empty_database_url) as opened:
        with pytest.raises(SchemaOutdated, match="tidegate schema migrate"):
            await opened.call(set_limit, "vendor-x", max_running=1)
        await opened.rollback()


async def test_a_search_path_of_the_callers_makes_no_difference_and_stays(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "create schema decoy; set search_path = decoy; create function decoy.now() returns int return 1"
        )
        set_limit(connection, "vendor-x", max_running=1)
        send_mail.using(session=connection).enqueue("a")
        assert connection.execute("show search_path").fetchone() == ("decoy",)
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        connection.rollback()


async def test_the_sessions_row_factory_and_settings_stay(database_url: str) -> None:
    with psycopg.connect(database_url, row_factory=dict_row) as connection:
        connection.execute(
            "set local datestyle = 'German'; set local intervalstyle = 'iso_8601'; set local timezone = 'Asia/Kolkata'"
        )
        set_limit(connection, "vendor-x", max_starts=1, window=timedelta(milliseconds=100.5))
        assert list_limits(connection)[0].window == timedelta(milliseconds=100.5)
        job = send_mail.using(session=connection, expires=timedelta(hours=1)).enqueue("a")
        status = job_status(connection, job.id)
        assert status.expires_at is not None
        assert timedelta(minutes=59) < status.expires_at - status.created_at <= timedelta(hours=1)
        assert connection.execute("select 1 as one").fetchone() == {"one": 1}
        assert connection.row_factory is dict_row
        connection.rollback()


class Base(orm.DeclarativeBase):
    """Models of an application."""


class Order(Base):
    __tablename__ = "orders"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)


@pytest.fixture
def sqlalchemy_engine(database_url: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine(dialect_url(database_url, "psycopg"), poolclass=sa.NullPool)
    Base.metadata.create_all(engine)
    yield engine
    engine.dispose()


def test_pending_objects_of_a_session_are_not_flushed(sqlalchemy_engine: sa.Engine) -> None:
    with orm.Session(sqlalchemy_engine) as session:
        order = Order(id=1)
        session.add(order)
        send_mail.using(session=session).enqueue("a")
        set_limit(session, "vendor-x", max_running=1)
        assert order in session.new
        assert session.in_transaction()
        assert session.autoflush
        session.commit()
    with sqlalchemy_engine.connect() as connection:
        assert connection.execute(sa.text("select count(*) from orders, tidegate.jobs")).scalar_one() == 1


def test_a_job_belongs_to_the_savepoint_it_was_enqueued_in(sqlalchemy_engine: sa.Engine) -> None:
    with orm.Session(sqlalchemy_engine) as session:
        with session.begin_nested() as savepoint:
            send_mail.using(session=session).enqueue("gone")
            savepoint.rollback()
        kept = send_mail.using(session=session).enqueue("kept")
        assert [job.id for job in list_jobs(session)] == [kept.id]


def test_an_error_of_sqlalchemy_never_shows_the_payload(sqlalchemy_engine: sa.Engine) -> None:
    with orm.Session(sqlalchemy_engine) as session:
        enqueuer = send_mail.using(session=session, queue="mail")
        session.execute(sa.text("select tidegate.set_max_payload_bytes(1024)"))
        with pytest.raises(ValueError, match="payload") as caught:
            enqueuer.enqueue("a secret of many letters" * 100)
        error: BaseException | None = caught.value
        assert "secret" not in str(error)
        assert error is not None
        assert error.__cause__ is None
        assert error.__suppress_context__


def test_psycopg_pipelines_work(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        with connection.pipeline():
            job = send_mail.using(session=connection).enqueue("a")
        assert list_jobs(connection)[0].id == job.id


@pytest.mark.parametrize("session", [object(), 7, "postgresql://here", asyncpg, sa.MetaData()])
def test_anything_else_is_refused_and_the_kinds_are_named(session: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: set_limit(session, "k", max_running=1),
        lambda: list_limits(session),
        lambda: send_mail.using(session=session),
    ]
    for call in calls:
        with pytest.raises(ConfigurationError) as caught:
            call()
        for name in ("asyncpg", "SQLAlchemy", "AsyncConnection", "AsyncSession", "Connection", "Session", "psycopg 3"):
            assert name in str(caught.value)
        assert type(session).__qualname__ in str(caught.value)


def test_another_database_is_refused() -> None:
    engine = sa.create_engine("sqlite://")
    with engine.connect() as connection, pytest.raises(ConfigurationError, match="sqlite"):
        set_limit(connection, "k", max_running=1)
    engine.dispose()


def types_of_results(  # noqa: PLR0917
    asyncpg_connection: asyncpg.Connection[asyncpg.Record],
    proxy: asyncpg.pool.PoolConnectionProxy[asyncpg.Record],
    psycopg_connection: psycopg.Connection[Any],
    psycopg_async: psycopg.AsyncConnection[Any],
    connection: sa.Connection,
    session: orm.Session,
    scoped: orm.scoped_session[orm.Session],
    async_connection: aio.AsyncConnection,
    async_session: aio.AsyncSession,
    async_scoped: aio.async_scoped_session[aio.AsyncSession],
) -> None:
    """Read by the type checker alone: what a user's editor says of each kind."""
    assert_type(list_limits(asyncpg_connection), Awaitable[list[LimitStatus]])
    assert_type(list_limits(proxy), Awaitable[list[LimitStatus]])
    assert_type(list_limits(psycopg_connection), list[LimitStatus])
    assert_type(list_limits(psycopg_async), Awaitable[list[LimitStatus]])
    assert_type(list_limits(connection), list[LimitStatus])
    assert_type(list_limits(session), list[LimitStatus])
    assert_type(list_limits(scoped), list[LimitStatus])
    assert_type(list_limits(async_connection), Awaitable[list[LimitStatus]])
    assert_type(list_limits(async_session), Awaitable[list[LimitStatus]])
    assert_type(list_limits(async_scoped), Awaitable[list[LimitStatus]])
    assert_type(set_limit(session, "k", max_running=None), LimitPolicy)
    assert_type(set_limit(async_session, "k", max_running=None), Awaitable[LimitPolicy])
    assert_type(send_mail.using(session=session).enqueue("a"), EnqueuedJob)
    assert not inspect.isawaitable(send_mail.using(limit_key="k"))


def test_enqueuers_know_their_kind(sqlalchemy_engine: sa.Engine) -> None:
    with sqlalchemy_engine.connect() as connection:
        assert type(send_mail.using(priority=1).using(session=connection)) is SyncEnqueuer
    assert type(send_mail.using(priority=1)) is AsyncEnqueuer
