"""The database goes away, comes back, or loses a reply, while jobs run."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.faults.proxies import Proxy, proxy_before
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
from tidegate.errors import DatabaseUnavailable
from tidegate.ports import ClaimReply, ClaimRequest, OutcomeReply
from tidegate.store.workers import WorkerStore

HEARTBEAT_TIMEOUT = timedelta(seconds=1)
AWAY = "the database does not answer, trying again"
BACK = "the database answers again"


@pytest.fixture
async def proxy(database_url: str) -> AsyncIterator[Proxy]:
    async with proxy_before(database_url) as proxy:
        yield proxy


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[App]:
    """An app whose own connections do not go through the proxy."""
    async with App(database_url) as app:
        yield app


def through(app: App, proxy: Proxy) -> dict[str, Any]:
    """Arguments for a worker whose connections all go through the proxy."""
    return {"store": WorkerStore(proxy.url, heartbeat_timeout=HEARTBEAT_TIMEOUT), "listen_url": proxy.url}


async def occurred(event: asyncio.Event) -> None:
    async with asyncio.timeout(DEADLINE):
        await event.wait()


def messages(caplog: pytest.LogCaptureFixture, level: int) -> Counter[str]:
    return Counter(record.getMessage() for record in caplog.records if record.levelno == level)


def told(caplog: pytest.LogCaptureFixture, level: int, message: str) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return messages(caplog, level)[message] > 0

    return look


@pytest.mark.parametrize("how", [Proxy.cut, Proxy.swallow], ids=["refused", "silent"])
async def test_a_hundred_running_jobs_survive_an_outage_longer_than_their_lease(
    app: App, proxy: Proxy, caplog: pytest.LogCaptureFixture, how: Callable[[Proxy], None]
) -> None:
    caplog.set_level(logging.INFO)
    gates = [Gate() for _ in range(100)]
    runs: Counter[int] = Counter()

    @app.actor(channel="a")
    async def held(number: int) -> None:
        runs[number] += 1
        await gates[number].pass_through()

    async with at_work(app, slots=100, lease=3.0, **through(app, proxy)) as worker:
        await held.enqueue_many([{"number": number} for number in range(100)])
        for gate in gates:
            await gate.reached()
        how(proxy)
        # half of them finish while nobody can be told; the others are still at it at the self-fence
        for gate in gates[:50]:
            gate.leave.set()
        for gate in gates[50:]:
            await occurred(gate.cancelled)
        # the lease has run out by the database's clock too
        await until(
            lambda: app.engine.fetchval("select bool_and(seen_at + lease < clock_timestamp()) from tidegate.workers")
        )
        await until(told(caplog, logging.WARNING, AWAY))
        for gate in gates:
            gate.leave.set()
        proxy.resume()
        await all_succeeded(app, 100)
        await until(told(caplog, logging.INFO, BACK))
    assert worker.endings == []
    assert [runs[number] for number in range(100)] == [1] * 50 + [2] * 50
    spent = await app.engine.fetch("select distinct attempt, lost from tidegate.history")
    assert [tuple(row) for row in spent] == [(1, 0)]
    assert await app.engine.fetchval("select count(*) from tidegate.workers") == 1
    assert messages(caplog, logging.WARNING)[AWAY] == 1
    assert messages(caplog, logging.INFO)[BACK] == 1
    assert messages(caplog, logging.WARNING).total() <= 3
    assert [record for record in caplog.records if record.exc_info] == []
    await no_drift(app)


async def test_nobody_is_rescued_after_an_outage_of_the_database(app: App, proxy: Proxy) -> None:
    gate = Gate()

    @app.actor(channel="a")
    async def held() -> None:
        await gate.pass_through()

    one, other = through(app, proxy), through(app, proxy)
    async with at_work(app, lease=2.0, **one), at_work(app, lease=2.0, **other):
        job = (await held.enqueue()).id
        await gate.reached()
        proxy.cut()
        await occurred(gate.cancelled)
        await until(
            lambda: app.engine.fetchval("select bool_and(seen_at + lease < clock_timestamp()) from tidegate.workers")
        )
        gate.leave.set()
        proxy.resume()
        row = await in_state(app, job, "succeeded")
        assert (row["attempt"], row["lost"]) == (1, 0)
        assert await app.engine.fetchval("select count(*) filter (where alive) from tidegate.workers") == 2


async def test_a_worker_that_was_cut_off_alone_is_rescued_and_goes_on_under_a_new_identity(
    app: App, proxy: Proxy
) -> None:
    gates = [Gate(), Gate()]
    runs = 0

    @app.actor(channel="a")
    async def held() -> None:
        nonlocal runs
        runs += 1
        await gates[runs - 1].pass_through()

    async with at_work(app, slots=1, lease=3.0, name="cut off", **through(app, proxy)) as cut_off:
        job = (await held.enqueue()).id
        await gates[0].reached()
        first = (await state_of(app, job))["worker"]
        async with at_work(app, slots=1, lease=3.0, name="other"):
            # it may judge others only after a lease of unbroken contact
            proxy.swallow()
            await gates[1].reached()
            row = await state_of(app, job)
            assert row["worker"] != first
            assert (row["attempt"], row["lost"]) == (1, 1)
            proxy.resume()
            await until(lambda: app.engine.fetchval("select count(*) = 2 from tidegate.workers where alive"))
            gates[1].leave.set()
            await in_state(app, job, "succeeded")
    assert gates[0].cancelled.is_set()
    assert cut_off.endings == []
    assert runs == 2
    names = await app.engine.fetch("select name, count(*) from tidegate.workers group by name")
    assert dict(map(tuple, names)) == {"cut off": 2, "other": 1}
    await no_drift(app)


async def test_all_connections_killed_again_and_again(app: App, connection: Any) -> None:
    runs: Counter[int] = Counter()

    @app.actor(channel="a")
    async def actor(number: int) -> None:
        runs[number] += 1
        await asyncio.sleep(0.01)

    await app.engine.execute("select * from tidegate.change_limit('k', '{\"max_running\": 5}')")
    await actor.using(limit_key="k").enqueue_many([{"number": number} for number in range(300)])
    async with at_work(app, slots=8, lease=3.0):
        for _ in range(8):
            await asyncio.sleep(0.1)
            await connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()"
                " and application_name ~ '^tidegate (claims|heartbeats|chores|listener|errands)$'"
            )
        await all_succeeded(app, 300)
    spent = await app.engine.fetch("select distinct attempt, lost from tidegate.history")
    assert [tuple(row) for row in spent] == [(1, 0)]
    assert set(runs) == set(range(300))
    await no_drift(app)


async def test_a_worker_that_starts_before_its_database_waits_for_it(app: App, proxy: Proxy) -> None:
    @app.actor(channel="a")
    async def actor() -> None: ...

    await actor.enqueue()
    proxy.cut()
    async with at_work(app, **through(app, proxy)):
        await until(attempts(proxy, 3))
        proxy.resume()
        await all_succeeded(app, 1)


def attempts(proxy: Proxy, count: int) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return proxy.refused >= count

    return look


@pytest.mark.parametrize("how", [Proxy.cut, Proxy.swallow], ids=["refused", "silent"])
async def test_a_worker_can_be_stopped_before_it_ever_reached_its_database(
    app: App, proxy: Proxy, how: Callable[[Proxy], None]
) -> None:
    @app.actor(channel="a")
    async def actor() -> None: ...

    how(proxy)
    async with at_work(app, grace=600.0, **through(app, proxy)) as worker:
        assert await worker.drained() == 0


@pytest.mark.parametrize("how", [Proxy.cut, Proxy.swallow], ids=["refused", "silent"])
async def test_a_worker_can_be_stopped_during_an_outage_and_its_job_is_run_by_others(
    app: App, proxy: Proxy, how: Callable[[Proxy], None]
) -> None:
    gates = [Gate(), Gate()]
    runs = 0

    @app.actor(channel="a")
    async def held() -> None:
        nonlocal runs
        runs += 1
        await gates[runs - 1].pass_through()

    async with at_work(app, lease=2.0, grace=0.1, **through(app, proxy)) as worker:
        job = (await held.enqueue()).id
        await gates[0].reached()
        how(proxy)
        assert await worker.drained() == 75
    assert gates[0].cancelled.is_set()
    gates[1].leave.set()
    async with at_work(app, lease=2.0):
        row = await in_state(app, job, "succeeded")
    assert (row["attempt"], row["lost"]) == (1, 1)


class LosingStore(WorkerStore):
    """Does what it is told and then loses the reply, as often as told."""

    def __init__(self, url: str, lose: Counter[str]) -> None:
        super().__init__(url, heartbeat_timeout=HEARTBEAT_TIMEOUT)
        self.lose = lose

    def _lost(self, what: str) -> None:
        if self.lose[what] > 0:
            self.lose[what] -= 1
            raise DatabaseUnavailable(f"the reply to {what} was lost")

    async def claim(self, request: ClaimRequest) -> ClaimReply:
        reply = await super().claim(request)
        if reply.jobs or request.done_jobs:
            self._lost("claim")
        return reply

    async def flush(self) -> None:
        await super().flush()
        self._lost("flush")

    async def ack(self, *args: Any) -> OutcomeReply:
        reply = await super().ack(*args)
        self._lost("ack")
        return reply

    async def nack(self, *args: Any, **options: Any) -> OutcomeReply:
        reply = await super().nack(*args, **options)
        self._lost("nack")
        return reply


@pytest.mark.parametrize("what", ["claim", "flush", "ack", "nack"])
async def test_a_lost_reply_loses_no_job_and_spends_no_attempt(app: App, what: str) -> None:
    failed: set[int] = set()

    @app.actor(channel="a")
    async def actor(number: int) -> None:
        if what == "nack" and number not in failed:
            failed.add(number)
            raise ValueError

    store = LosingStore(app.database_url, Counter({what: 3}))
    async with at_work(app, slots=4, lease=3.0, store=store) as worker:
        # beside another worker's queue claims are early ones
        if what == "flush":
            await app.engine.execute(
                "select tidegate.register_worker(gen_random_uuid(), 'other', '{a}', '{}', 1, null, '1 hour', '0')"
            )
        number = 0
        while store.lose[what]:
            await actor.enqueue_many([{"number": number + i} for i in range(10)])
            number += 10
            await all_succeeded(app, number)
        assert worker.runtime.counts.stale == 0
    attempts = await app.engine.fetch("select distinct attempt, lost from tidegate.history")
    assert {tuple(row) for row in attempts} <= ({(1, 0), (2, 0)} if what == "nack" else {(1, 0)})
    await no_drift(app)


async def test_an_identity_that_the_database_forgot_is_renewed_and_its_outcome_is_stale(app: App) -> None:
    gates = [Gate(), Gate()]
    runs = 0

    @app.actor(channel="a")
    async def held() -> None:
        nonlocal runs
        runs += 1
        await gates[runs - 1].pass_through()

    async with at_work(app, slots=2, lease=3.0) as worker:
        job = (await held.enqueue()).id
        await gates[0].reached()
        first = (await state_of(app, job))["worker"]
        await app.engine.execute("select * from tidegate.leave($1)", first)
        await occurred(gates[0].cancelled)
        await gates[1].reached()
        assert (await state_of(app, job))["worker"] != first
        gates[1].leave.set()
        row = await in_state(app, job, "succeeded")
        assert (row["attempt"], row["lost"]) == (1, 0)
        assert worker.runtime.counts.succeeded == 1
    assert worker.endings == []


async def test_a_thread_still_running_at_the_self_fence_ends_the_process(app: App, proxy: Proxy) -> None:
    loop = asyncio.get_running_loop()
    entered, leave = asyncio.Event(), asyncio.Event()

    @app.actor(channel="a")
    def held() -> None:
        loop.call_soon_threadsafe(entered.set)
        asyncio.run_coroutine_threadsafe(leave.wait(), loop).result(DEADLINE)

    async with at_work(app, lease=2.0, **through(app, proxy)) as worker:
        await held.enqueue()
        await occurred(entered)
        proxy.cut()

        async def ended() -> bool:
            return bool(worker.endings)

        await until(ended)
        assert set(worker.endings) == {70}
        leave.set()
        proxy.resume()
