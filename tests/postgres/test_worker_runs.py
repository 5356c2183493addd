"""What a worker does with jobs when nothing goes wrong around it."""

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from tests.postgres.workers_at_work import (
    Gate,
    all_succeeded,
    asleep,
    at_work,
    in_state,
    no_drift,
    state_of,
    until,
)
from tidegate import App
from tidegate.errors import DatabaseUnavailable
from tidegate.ports import ClaimReply, ClaimRequest
from tidegate.store.migrating import migrate
from tidegate.store.workers import WorkerStore


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[App]:
    async with App(database_url) as app:
        yield app


async def test_async_and_sync_actors_run_with_their_arguments(app: App) -> None:
    seen: list[tuple[str, int]] = []
    threads: set[int] = set()

    @app.actor(channel="a")
    async def coroutine(number: int) -> None:
        seen.append(("coroutine", number))

    @app.actor(channel="a")
    def function(number: int) -> None:
        seen.append(("function", number))
        threads.add(threading.get_ident())

    async with at_work(app):
        await coroutine.enqueue_many([{"number": number} for number in range(30)])
        await function.enqueue_many([{"number": number} for number in range(30)])
        await all_succeeded(app, 60)
    assert sorted(seen) == sorted((name, number) for name in ("coroutine", "function") for number in range(30))
    assert threading.get_ident() not in threads
    await no_drift(app)


async def test_one_worker_serves_several_queues_and_jobs_sent_to_a_queue_that_is_not_their_actors(app: App) -> None:
    @app.actor(channel="a")
    async def first() -> None: ...

    @app.actor(channel="b")
    async def second() -> None: ...

    async with at_work(app, slots=2):
        for _ in range(5):
            await first.enqueue()
            await second.enqueue()
            await first.using(queue="b").enqueue()
        await all_succeeded(app, 15)
    await no_drift(app)


async def test_limits_hold_and_what_they_held_back_starts_when_a_slot_of_the_limit_frees(app: App) -> None:
    running: set[int] = set()
    most = 0

    @app.actor(channel="a")
    async def limited(number: int) -> None:
        nonlocal most
        running.add(number)
        most = max(most, len(running))
        await asyncio.sleep(0)
        running.discard(number)

    await app.engine.execute("select * from tidegate.change_limit('k', '{\"max_running\": 2}')")
    # no poll will come: what follows a finish is found by the finish
    async with at_work(app, slots=8, poll=600.0):
        await asleep(app, "a")
        await limited.using(limit_key="k").enqueue_many([{"number": number} for number in range(40)])
        await all_succeeded(app, 40)
    assert most <= 2
    await no_drift(app)


async def test_a_failed_attempt_is_tried_again_and_dead_when_attempts_are_used_up(app: App) -> None:
    @app.actor(channel="a")
    async def failing() -> None:
        raise ValueError("no luck")

    async with at_work(app) as worker:
        job = (await failing.using(max_attempts=2).enqueue()).id
        row = await in_state(app, job, "dead")
    assert (row["attempt"], row["error"]) == (2, "ValueError: no luck")
    assert 'raise ValueError("no luck")' in row["traceback"]
    assert "executor.py" not in row["traceback"]
    assert worker.runtime.counts.failed == 2


async def test_a_dead_job_can_be_retried(app: App) -> None:
    broken = True

    @app.actor(channel="a")
    async def failing() -> None:
        if broken:
            raise ValueError

    async with at_work(app):
        job = (await failing.using(max_attempts=1).enqueue()).id
        await in_state(app, job, "dead")
        broken = False
        assert await app.engine.fetchval("select tidegate.retry($1)", job) == "ready"
        await in_state(app, job, "succeeded")


@pytest.mark.parametrize("text", ["nul \0 in it", "half a pair \ud800", "x" * 100_000], ids=["nul", "pair", "long"])
async def test_error_texts_that_cannot_be_stored_are_stored_all_the_same(app: App, text: str) -> None:
    @app.actor(channel="a")
    async def failing() -> None:
        raise RuntimeError(text)

    async with at_work(app):
        job = (await failing.using(max_attempts=1).enqueue()).id
        row = await in_state(app, job, "dead")
    assert row["error"].startswith("RuntimeError: ")
    assert len(row["error"]) <= 2_000
    assert len(row["traceback"]) <= 8_000


async def test_an_error_whose_own_text_fails_is_an_ordinary_failure(app: App) -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise KeyError

    @app.actor(channel="a")
    async def failing() -> None:
        raise MuteError

    async with at_work(app):
        job = (await failing.using(max_attempts=1).enqueue()).id
        row = await in_state(app, job, "dead")
    assert "MuteError" in row["error"]


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, asyncio.CancelledError, StopIteration])
@pytest.mark.parametrize("threaded", [False, True])
async def test_an_actor_cannot_end_the_worker(app: App, kind: type[BaseException], threaded: bool) -> None:
    def raise_it() -> None:
        raise kind

    if threaded:

        @app.actor(channel="a")
        def failing() -> None:
            raise_it()
    else:

        @app.actor(channel="a")
        async def failing() -> None:
            raise_it()

    async with at_work(app):
        job = (await failing.using(max_attempts=1).enqueue()).id
        await in_state(app, job, "dead")


async def test_arguments_that_do_not_fit_are_dead_at_once_and_their_values_are_not_in_the_error(app: App) -> None:
    @app.actor(channel="a")
    async def strict(number: int) -> None: ...

    async with at_work(app):
        job = await app.engine.fetchval(
            "select id from tidegate.enqueue('a', 'strict', '{\"number\": \"s3cret\"}', max_attempts => 5)"
        )
        row = await in_state(app, job, "dead")
    assert row["attempt"] == 1
    assert "number" in row["error"]
    assert "s3cret" not in row["error"] + (row["traceback"] or "")


async def test_a_function_that_returns_a_coroutine_fails_rather_than_counting_as_done(app: App) -> None:
    async def hidden() -> None: ...

    @app.actor(channel="a")
    def wrapper() -> Any:
        return hidden()

    async with at_work(app):
        job = (await wrapper.using(max_attempts=1).enqueue()).id
        assert "coroutine" in (await in_state(app, job, "dead"))["error"]


async def test_a_coroutine_past_its_timeout_is_cancelled_and_failed(app: App) -> None:
    gate = Gate()

    @app.actor(channel="a", timeout=timedelta(milliseconds=50))
    async def slow() -> None:
        await gate.pass_through()

    async with at_work(app):
        job = (await slow.using(max_attempts=1).enqueue()).id
        row = await in_state(app, job, "dead")
    assert gate.cancelled.is_set()
    assert row["error"] == "TimeoutError: ran longer than its timeout of 0.05 s"


async def test_a_thread_past_its_timeout_keeps_its_slot_and_is_failed_when_it_ends(app: App) -> None:
    entered, leave = threading.Event(), threading.Event()

    @app.actor(channel="a", timeout=timedelta(milliseconds=50))
    def slow() -> None:
        entered.set()
        leave.wait(30)

    @app.actor(channel="a")
    async def other() -> None: ...

    async with at_work(app, slots=1) as worker:
        job = (await slow.using(max_attempts=1).enqueue()).id
        await in_state(app, job, "running")
        waiting = (await other.enqueue()).id
        await asyncio.to_thread(entered.wait, 30)
        # far past its timeout it still runs, and holds the only slot
        await asyncio.sleep(0.3)
        assert (await state_of(app, job))["state"] == "running"
        assert (await state_of(app, waiting))["state"] == "ready"
        leave.set()
        assert "TimeoutError" in (await in_state(app, job, "dead"))["error"]
        await in_state(app, waiting, "succeeded")
    assert worker.endings == []


async def test_a_thread_past_its_timeout_and_the_grace_ends_the_process(app: App) -> None:
    leave = threading.Event()

    @app.actor(channel="a", timeout=timedelta(milliseconds=50))
    def stuck() -> None:
        leave.wait(30)

    async with at_work(app, grace=0.1) as worker:
        job = (await stuck.using(max_attempts=2).enqueue()).id
        assert await worker.stopped() == 70
        assert worker.endings == [70]
        row = await state_of(app, job)
        leave.set()
    # its attempt is spent, or it would end one process after the other
    assert (row["state"] in {"scheduled", "ready"}, row["attempt"]) == (True, 1)


async def test_cancel_of_a_running_coroutine(app: App) -> None:
    gate = Gate()

    @app.actor(channel="a")
    async def held() -> None:
        await gate.pass_through()

    # no heartbeat will come by itself: it is the notification that brings it
    async with at_work(app, lease=100.0):
        job = (await held.enqueue()).id
        await gate.reached()
        assert await app.engine.fetchval("select tidegate.cancel($1)", job) == "cancelling"
        row = await in_state(app, job, "cancelled")
    assert gate.cancelled.is_set()
    assert row["attempt"] == 1


async def test_cancel_reaches_the_worker_without_notifications(app: App) -> None:
    gate = Gate()

    @app.actor(channel="a")
    async def held() -> None:
        await gate.pass_through()

    async with at_work(app, lease=3.0, listen_url="postgresql://nobody@127.0.0.1:1/none"):
        job = (await held.enqueue()).id
        await gate.reached()
        await app.engine.fetchval("select tidegate.cancel($1)", job)
        await in_state(app, job, "cancelled")


async def test_a_cancelled_actor_that_finishes_all_the_same_has_succeeded(app: App) -> None:
    entered = asyncio.Event()

    @app.actor(channel="a")
    async def stubborn() -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    async with at_work(app):
        job = (await stubborn.enqueue()).id
        await asyncio.wait_for(entered.wait(), 30)
        await app.engine.fetchval("select tidegate.cancel($1)", job)
        await in_state(app, job, "succeeded")


async def test_jobs_of_actors_that_the_worker_does_not_know_stay_ready(app: App) -> None:
    @app.actor(channel="a")
    async def known() -> None: ...

    async with at_work(app):
        foreign = await app.engine.fetchval("select id from tidegate.enqueue('a', 'foreign')")
        job = (await known.enqueue()).id
        await in_state(app, job, "succeeded")
        row = await state_of(app, foreign)
    assert (row["state"], row["attempt"]) == ("ready", 0)


async def test_a_payload_too_large_to_come_along_is_fetched(database_url: str) -> None:
    seen: list[int] = []
    async with App(database_url, max_payload_bytes=16 * 1024 * 1024) as app:
        await app.engine.execute("select tidegate.set_max_payload_bytes($1)", 16 * 1024 * 1024)

        @app.actor(channel="a")
        async def large(text: str) -> None:
            seen.append(len(text))

        @app.actor(channel="a")
        def large_in_a_thread(text: str) -> None:
            seen.append(len(text))

        async with at_work(app):
            await large.enqueue(text="x" * 3_000_000)
            await large_in_a_thread.enqueue(text="x" * 2_000_000)
            await all_succeeded(app, 2)
    assert sorted(seen) == [2_000_000, 3_000_000]


async def test_a_job_for_later_starts_at_its_time_and_not_at_the_next_poll(app: App) -> None:
    @app.actor(channel="a")
    async def later() -> None: ...

    async with at_work(app, poll=600.0):
        await asleep(app, "a")
        job = (await later.using(delay=timedelta(seconds=0.5)).enqueue()).id
        row = await in_state(app, job, "succeeded")
    assert row["started_at"] >= row["run_at"]


async def test_a_worker_waits_for_a_schema_and_says_what_to_type(
    empty_database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with App(empty_database_url) as app:

        @app.actor(channel="a")
        async def actor() -> None: ...

        async with at_work(app):

            async def said() -> bool:
                return any("tidegate schema migrate" in str(vars(record)) for record in caplog.records)

            await until(said)
            await migrate(app.engine)
            await actor.enqueue()
            await all_succeeded(app, 1)


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
async def test_a_server_whose_default_isolation_differs(app: App, connection: Any, level: str) -> None:
    name = await connection.fetchval("select current_database()")
    await connection.execute(f"alter database {name} set default_transaction_isolation = '{level}'")

    @app.actor(channel="a")
    async def actor() -> None: ...

    async with at_work(app, lease=3.0, maintenance=0.2):
        await actor.using(limit_key="k").enqueue_many([{} for _ in range(20)])
        await all_succeeded(app, 20)


async def test_a_suspended_queue_waits_and_goes_on_when_it_is_resumed(app: App) -> None:
    @app.actor(channel="a")
    async def actor() -> None: ...

    async with at_work(app, poll=0.1):
        await app.engine.execute("select tidegate.set_queue('a', '{\"held_by_hand\": true}')")
        job = (await actor.enqueue()).id
        await asyncio.sleep(0.3)
        assert (await state_of(app, job))["state"] == "ready"
        await app.engine.execute("select tidegate.set_queue('a', '{\"held_by_hand\": false}')")
        await in_state(app, job, "succeeded")


class HeldUpStore(WorkerStore):
    """Holds the reply of a claim that started jobs until the test lets it through."""

    def __init__(self, url: str) -> None:
        super().__init__(url, heartbeat_timeout=timedelta(seconds=10))
        self.claimed = asyncio.Event()
        self.go_on = asyncio.Event()

    async def claim(self, request: ClaimRequest) -> ClaimReply:
        reply = await super().claim(request)
        if reply.jobs:
            self.claimed.set()
            await self.go_on.wait()
        return reply


async def test_what_a_claim_brings_after_the_signal_goes_back_unstarted(app: App) -> None:
    ran = False

    @app.actor(channel="a")
    async def actor() -> None:
        nonlocal ran
        ran = True

    store = HeldUpStore(app.database_url)
    async with at_work(app, store=store) as worker:
        job = (await actor.enqueue()).id
        await asyncio.wait_for(store.claimed.wait(), 30)
        worker.runtime.stop()
        store.go_on.set()
        assert await worker.stopped() == 0
        assert worker.runtime.counts.given_back == 1
    row = await state_of(app, job)
    assert (row["state"], row["attempt"], row["lost"]) == ("ready", 0, 0)
    assert not ran
    await no_drift(app)


async def test_cancelling_the_worker_gives_running_jobs_back(app: App) -> None:
    gate = Gate()

    @app.actor(channel="a")
    async def held() -> None:
        await gate.pass_through()

    running = asyncio.create_task(app.run_worker())
    job = (await held.enqueue()).id
    await gate.reached()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert gate.cancelled.is_set()
    row = await state_of(app, job)
    assert (row["state"], row["attempt"], row["lost"]) == ("ready", 0, 0)
    assert await app.engine.fetchval("select count(*) from tidegate.workers where alive") == 0


async def test_a_job_whose_large_payload_is_slow_to_come_can_be_cancelled_and_given_back(database_url: str) -> None:
    class WithoutPayloads(WorkerStore):
        async def payload_of(self, *token: object) -> str | None:  # noqa: ARG002
            asked.set()
            raise DatabaseUnavailable("no payload today")

    asked = asyncio.Event()
    async with App(database_url, max_payload_bytes=16 * 1024 * 1024) as app:
        await app.engine.execute("select tidegate.set_max_payload_bytes($1)", 16 * 1024 * 1024)

        @app.actor(channel="a")
        async def large(text: str) -> None: ...

        store = WithoutPayloads(database_url, heartbeat_timeout=timedelta(seconds=10))
        async with at_work(app, store=store):
            job = (await large.enqueue(text="x" * 3_000_000)).id
            await asyncio.wait_for(asked.wait(), 30)
            await app.engine.fetchval("select tidegate.cancel($1)", job)
            await in_state(app, job, "cancelled")
            asked.clear()
            job = (await large.enqueue(text="x" * 3_000_000)).id
            await asyncio.wait_for(asked.wait(), 30)
        row = await state_of(app, job)
        assert (row["state"], row["attempt"]) == ("ready", 0)


class SlowPayloads(WorkerStore):
    """Hands out large payloads once it is told to."""

    def __init__(self, url: str) -> None:
        super().__init__(url, heartbeat_timeout=timedelta(seconds=10))
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def payload_of(self, job: int, worker: Any, claim: int) -> str | None:
        self.asked.set()
        await self.go.wait()
        return await super().payload_of(job, worker, claim)


@pytest.fixture
async def large_app(database_url: str) -> AsyncIterator[App]:
    async with App(database_url, max_payload_bytes=16 * 1024 * 1024) as app:
        await app.engine.execute("select tidegate.set_max_payload_bytes($1)", 16 * 1024 * 1024)
        yield app


async def test_a_timeout_counts_from_when_the_large_payload_is_there(large_app: App) -> None:
    @large_app.actor(channel="a")
    async def large(text: str) -> None: ...

    store = SlowPayloads(large_app.database_url)
    async with at_work(large_app, store=store):
        job = (await large.using(timeout=timedelta(seconds=0.3)).enqueue(text="x" * 3_000_000)).id
        await asyncio.wait_for(store.asked.wait(), 30)
        await asyncio.sleep(0.5)  # longer than its timeout
        store.go.set()
        row = await in_state(large_app, job, "succeeded", "scheduled", "dead")
    assert (row["state"], row["attempt"]) == ("succeeded", 1)


async def test_a_message_whose_large_payload_is_on_its_way_goes_back_at_once_when_the_worker_stops(
    large_app: App,
) -> None:
    ran: list[int] = []

    @large_app.actor(channel="a")
    async def large(text: str) -> None:
        ran.append(len(text))

    store = SlowPayloads(large_app.database_url)
    async with at_work(large_app, store=store, grace=600.0) as worker:
        job = (await large.enqueue(text="x" * 3_000_000)).id
        await asyncio.wait_for(store.asked.wait(), 30)
        assert await worker.drained() == 0
    row = await state_of(large_app, job)
    assert (row["state"], row["attempt"], ran) == ("ready", 0, [])


async def test_a_job_that_lost_three_workers_runs_alone_and_the_others_run_before_and_after(app: App) -> None:
    order: list[str] = []
    inside: set[str] = set()
    gates = {name: Gate() for name in ("before", "suspect", "another", "after")}

    @app.actor(channel="a")
    async def named(name: str) -> None:
        order.append(name)
        inside.add(name)
        if name in ("suspect", "another"):
            assert inside == {name}
        await gates[name].pass_through()
        inside.remove(name)

    jobs = {name: (await named.using(max_attempts=1).enqueue(name=name)).id for name in gates}
    await app.engine.execute("update tidegate.jobs set lost = 3 where id = any($1)", [jobs["suspect"], jobs["another"]])
    async with at_work(app, poll=0.2):
        await gates["before"].reached()
        # a second suspect and what comes behind the first go back: they must not be lost with it
        assert (await in_state(app, jobs["another"], "ready"))["attempt"] == 0
        assert (await in_state(app, jobs["after"], "ready"))["attempt"] == 0
        assert order == ["before"]
        gates["before"].leave.set()
        await gates["suspect"].reached()
        gates["suspect"].leave.set()
        await gates["another"].reached()
        gates["another"].leave.set()
        gates["after"].leave.set()
        await all_succeeded(app, 4)
    assert order == ["before", "suspect", "another", "after"]
    await no_drift(app)


@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_a_suspect_that_waits_to_be_alone_can_be_given_back_and_cancelled(app: App, how: str) -> None:
    gate = Gate()
    ran: list[bool] = []

    @app.actor(channel="a")
    async def held() -> None:
        await gate.pass_through()

    @app.actor(channel="a")
    async def suspect() -> None:
        ran.append(True)

    async with at_work(app, grace=600.0) as worker:
        await held.enqueue()
        await gate.reached()
        async with app.engine.begin() as connection:
            job = (await suspect.using(session=connection).enqueue()).id
            await connection.execute("update tidegate.jobs set lost = 4 where id = $1", job)
        await in_state(app, job, "running")
        if how == "stop":
            worker.runtime.stop()
            assert (await in_state(app, job, "ready"))["attempt"] == 0
        else:
            await app.engine.fetchval("select tidegate.cancel($1)", job)
            await in_state(app, job, "cancelled")
            behind = (await held.enqueue()).id
            await in_state(app, behind, "running")
            worker.runtime.stop()
        gate.leave.set()
        assert await worker.stopped() == 0
    assert ran == []
