"""What a worker does when a reply, an actor or one of its own parts does what nobody foresaw."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.postgres.workers_at_work import (
    DEADLINE,
    Gate,
    all_succeeded,
    at_work,
    in_state,
    no_drift,
    state_of,
    until,
)
from tidegate import App
from tidegate.errors import ConfigurationError, DatabaseUnavailable
from tidegate.ports import ClaimReply, ClaimRequest, HeartbeatReply, RescueReply
from tidegate.runtime.endings import WorkerExit
from tidegate.store.worker_sessions import WorkerSession
from tidegate.store.workers import WorkerStore

HEARTBEAT_TIMEOUT = timedelta(seconds=10)


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[App]:
    async with App(database_url) as app:
        yield app


def store_with(app: App, **replaced: Callable[..., Any]) -> WorkerStore:
    """Make a store of which some calls are wrapped: each gets the real call and its arguments."""
    store = WorkerStore(app.database_url, heartbeat_timeout=HEARTBEAT_TIMEOUT)
    for name, wrapper in replaced.items():
        real = getattr(store, name)

        def call(*args: Any, _wrapper: Callable[..., Any] = wrapper, _real: Any = real, **named: Any) -> Any:
            return _wrapper(_real, *args, **named)

        setattr(store, name, call)
    return store


@pytest.mark.parametrize("raised", [OverflowError, ValueError, RuntimeError])
async def test_a_claim_that_nobody_can_read_ends_no_worker_and_its_jobs_are_run_unspent(
    app: App, caplog: pytest.LogCaptureFixture, raised: type[Exception]
) -> None:
    unread: list[int] = []

    @app.actor(channel="a")
    async def actor() -> None: ...

    async def claim(real: Any, request: ClaimRequest) -> ClaimReply:
        reply: ClaimReply = await real(request)
        if reply.jobs and not unread:
            unread.extend(job.id for job in reply.jobs)
            raise raised("canary")
        return reply

    async with at_work(app, store=store_with(app, claim=claim), lease=3.0) as worker:
        job = (await actor.enqueue()).id
        row = await in_state(app, job, "succeeded")
        assert unread == [job]
        assert (row["attempt"], row["lost"]) == (1, 0)
        assert await worker.drained() == WorkerExit.CLEAN
    assert sum("does not answer" in record.getMessage() for record in caplog.records) == 1
    assert "canary" not in caplog.text
    await no_drift(app)


@pytest.mark.parametrize(
    "value", ["interval '2000000000 days'", "timestamptz '20000-01-01'"], ids=["interval", "instant"]
)
async def test_a_value_that_python_has_no_room_for_is_an_error_of_the_database(database_url: str, value: str) -> None:
    session = WorkerSession(database_url, application_name="tidegate test", timeout=10)
    with pytest.raises(DatabaseUnavailable, match="cannot be read"):
        await session.fetch(f"select {value}")
    assert [tuple(row) for row in await session.fetch("select 1")] == [(1,)]
    await session.close()


@pytest.mark.parametrize("how", ["fails for good", "is cancelled"])
async def test_a_drain_ends_with_the_last_job_however_that_ends(app: App, how: str) -> None:
    gate = Gate()

    @app.actor(channel="a")
    async def held() -> None:
        await gate.pass_through()
        raise ValueError

    # no notification will come to wake it by chance
    async with at_work(app, lease=3.0, grace=3600.0, listen_url="postgresql://nobody@127.0.0.1:1/none") as worker:
        job = (await held.using(max_attempts=1).enqueue()).id
        await gate.reached()
        worker.runtime.stop()
        # one round trip, after which the claim loop has seen the stop and waits for the job
        await state_of(app, job)
        if how == "is cancelled":
            await app.engine.fetchval("select tidegate.cancel($1)", job)
        else:
            gate.leave.set()
        assert await worker.stopped() == WorkerExit.CLEAN
        await in_state(app, job, "cancelled" if how == "is cancelled" else "dead")


async def test_a_cancelled_job_is_counted_and_logged_as_such(app: App, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    gate = Gate()

    @app.actor(channel="a")
    async def held() -> None:
        await gate.pass_through()

    async with at_work(app, lease=3.0) as worker:
        job = (await held.enqueue()).id
        await gate.reached()
        await app.engine.fetchval("select tidegate.cancel($1)", job)
        await in_state(app, job, "cancelled")
        await worker.drained()
    assert (worker.runtime.counts.cancelled, worker.runtime.counts.failed) == (1, 0)
    about = [record for record in caplog.records if getattr(record, "job", None) == job]
    assert [record.levelno for record in about] == [logging.INFO]


async def test_the_cleanup_of_a_cancelled_job_is_cancelled_once(app: App) -> None:
    entered, cleaned = asyncio.Event(), asyncio.Event()
    repeated = 0

    @app.actor(channel="a")
    async def careful() -> None:
        nonlocal repeated
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            while not cleaned.is_set():
                try:
                    await cleaned.wait()
                except asyncio.CancelledError:
                    repeated += 1

    async with at_work(app, lease=1.0, stall_limit=60.0) as worker:
        job = (await careful.enqueue()).id
        await asyncio.wait_for(entered.wait(), DEADLINE)
        await app.engine.fetchval("select tidegate.cancel($1)", job)
        beaten = worker.runtime.beaten
        told = 0

        def count(snapshot: Any, reply: HeartbeatReply) -> None:
            nonlocal told
            told += job in reply.cancelled
            beaten(snapshot, reply)

        worker.runtime.beaten = count  # type: ignore[method-assign]

        async def told_often() -> bool:
            return told >= 3

        await until(told_often)
        cleaned.set()
        await in_state(app, job, "cancelled")
    assert repeated == 0


@pytest.mark.parametrize("kind", [GeneratorExit, KeyboardInterrupt, SystemExit, asyncio.CancelledError, RuntimeError])
async def test_whatever_a_coroutine_raises_its_slot_is_free_again(app: App, kind: type[BaseException]) -> None:
    @app.actor(channel="a")
    async def raising() -> None:
        raise kind

    @app.actor(channel="a")
    async def after() -> None: ...

    async with at_work(app, slots=1):
        job = (await raising.using(max_attempts=1).enqueue()).id
        await after.enqueue()
        await in_state(app, job, "dead")
        await all_succeeded(app, 1)


async def test_a_payload_that_cannot_be_read_fails_its_job_and_frees_the_slot(database_url: str) -> None:
    async def payload_of(_real: Any, *_: object) -> str:
        raise OverflowError

    async with App(database_url, max_payload_bytes=16 * 1024 * 1024) as app:
        await app.engine.execute("select tidegate.set_max_payload_bytes($1)", 16 * 1024 * 1024)

        @app.actor(channel="a")
        async def large(text: str) -> None: ...

        async with at_work(app, slots=1, store=store_with(app, payload_of=payload_of)):
            job = (await large.using(max_attempts=1).enqueue(text="x" * 3_000_000)).id
            assert (await in_state(app, job, "dead"))["error"] == "OverflowError"


async def test_a_part_of_the_worker_that_fails_drains_it_and_its_exit_code_says_so(app: App) -> None:
    gate = Gate()

    @app.actor(channel="a")
    async def held() -> None:
        await gate.pass_through()

    async def rescue(_real: Any, *_: object) -> RescueReply:
        await gate.reached()
        raise RuntimeError

    async with at_work(app, store=store_with(app, rescue=rescue)) as worker:
        job = (await held.enqueue()).id
        await gate.reached()
        gate.leave.set()
        assert await worker.stopped() == WorkerExit.FAILED
        assert (await state_of(app, job))["state"] == "succeeded"


async def test_a_system_without_threads_fails_an_attempt_and_not_the_worker(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.actor(channel="a", max_attempts=1)
    def function() -> None: ...

    @app.actor(channel="a")
    async def coroutine() -> None: ...

    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("tidegate actor"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    async with at_work(app) as worker:
        job = (await function.enqueue()).id
        row = await in_state(app, job, "dead")
        assert row["error"] == "RuntimeError: can't start new thread"
        await in_state(app, (await coroutine.enqueue()).id, "succeeded")
        assert [pool.messages for pool in worker.runtime.flow.usage()] == [0]


async def test_a_registration_that_the_database_refuses_for_good_ends_the_worker(app: App) -> None:
    @app.actor(channel="a")
    async def actor() -> None: ...

    await app.engine.execute(
        "create or replace function tidegate.register_worker(worker uuid, name text, queues text[], actors text[],"
        " slots int, fair boolean, lease interval, version text, namespace text default null, pod text default null)"
        " returns timestamptz language plpgsql as $$ begin"
        " raise exception 'the name does not fit' using errcode = '22021'; end $$"
    )
    async with asyncio.timeout(DEADLINE):
        with pytest.raises(ConfigurationError, match=r"refuses to register.*the name does not fit"):
            await app.run_worker()
