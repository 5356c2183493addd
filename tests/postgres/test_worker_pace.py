"""How often a worker speaks with the database: seldom when idle, seldom when busy, at once when there is news."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.faults.proxies import Proxy, proxy_before
from tests.postgres.workers_at_work import all_succeeded, asleep, at_work, in_state, no_drift, until
from tidegate import ActorLimits, App
from tidegate.store.statements import statement

HEARTBEATS = "tidegate heartbeats"
WORKER = ("tidegate claims", "tidegate errands", "tidegate chores", "tidegate listener")


@pytest.fixture
async def proxy(database_url: str) -> AsyncIterator[Proxy]:
    async with proxy_before(database_url) as proxy:
        yield proxy


@pytest.fixture
async def app(proxy: Proxy) -> AsyncIterator[App]:
    async with App(proxy.url) as app:
        yield app


TIMED = frozenset(map(statement, ("heartbeat", "rescue", "maintain")))
"""What a worker sends because time goes by, however many jobs there are."""

LOOKING = frozenset(map(statement, ("probe", "sleep_on")))
"""What it sends because it found nothing to do."""


def per_job(proxy: Proxy, before: Counter[tuple[str, str]], *apart: frozenset[str]) -> Counter[str]:
    """Statements of the worker since then, by text, but for those that time drives and others that count apart."""
    left_out = TIMED.union(*apart)
    counts: Counter[str] = Counter()
    for (application, text), count in (proxy.texts - before).items():
        if application in WORKER and text not in left_out:
            counts[text] += count
    return counts


async def knows_to_be_alone(proxy: Proxy) -> None:
    """Wait until a worker has asked whether others serve its queues: until then it flushes each claim apart."""

    async def look() -> bool:
        return proxy.texts["tidegate chores", statement("rescue")] > 0

    await until(look)


def spent(proxy: Proxy, before: Counter[str]) -> int:
    """Statements of the worker since then, heartbeats apart."""
    return sum((proxy.statements - before)[name] for name in WORKER)


@pytest.mark.parametrize("queues", [("a",), ("a", "b", "c")], ids=["one queue", "three queues"])
async def test_an_idle_worker_sends_at_most_one_statement_a_second(
    app: App, proxy: Proxy, queues: tuple[str, ...]
) -> None:
    @app.actor(channel="a")
    async def actor() -> None: ...

    # everything ten times as fast as by default: a poll of 0.1 s, a lease of 3 s, maintenance every 1.5 s
    async with at_work(app, queues=queues, poll=0.1, lease=3.0, maintenance=1.5):
        await asleep(app, *queues)
        before = proxy.statements.copy()
        await asyncio.sleep(5)
        # one statement each tenth of a second; three more since both ends of the span are ragged
        assert spent(proxy, before) <= 50 + 3
        assert (proxy.statements - before)[HEARTBEATS] >= 5


@pytest.mark.parametrize("limited", [False, True], ids=["unlimited", "limited"])
async def test_statements_per_job_with_batches(app: App, proxy: Proxy, limited: bool) -> None:
    @app.actor(channel="a")
    async def actor(number: int) -> None: ...

    key = "k" if limited else None
    await app.engine.execute("select * from tidegate.change_limit('k', '{\"max_running\": 1000}')")
    async with at_work(app, slots=10, poll=600.0):
        await asleep(app, "a")
        await knows_to_be_alone(proxy)
        before = proxy.texts.copy()
        await actor.using(limit_key=key).enqueue_many([{"number": number} for number in range(1000)])
        await all_succeeded(app, 1000)
        # a claim for each ten jobs, which hands the ten before them in, and one for the last
        assert per_job(proxy, before, LOOKING) == {statement("claim"): 101}
    await no_drift(app)


@pytest.mark.parametrize("narrow", [False, True], ids=["slots", "a narrow actor"])
async def test_a_busy_queue_costs_no_claims_of_idle_ones(app: App, proxy: Proxy, narrow: bool) -> None:
    @app.actor(channel="a", limits=ActorLimits(max_messages=10) if narrow else None)
    async def actor(number: int) -> None: ...

    queues = ("a", "b", "c", "d", "e")
    async with at_work(app, slots=20 if narrow else 10, poll=600.0, queues=queues):
        await asleep(app, *queues)
        await knows_to_be_alone(proxy)
        before = proxy.texts.copy()
        await actor.enqueue_many([{"number": number} for number in range(1000)])
        await all_succeeded(app, 1000)
        # an idle queue may be looked at once, when its news may have gone unheard
        assert 101 <= per_job(proxy, before, LOOKING)[statement("claim")] <= 101 + len(queues)
    await no_drift(app)


async def test_statements_per_job_with_batches_beside_another_worker(app: App, proxy: Proxy) -> None:
    @app.actor(channel="a")
    async def actor(number: int) -> None: ...

    async with at_work(app, slots=16), at_work(app, slots=16):
        await actor.enqueue_many([{"number": number} for number in range(2000)])
        before = proxy.texts.copy()
        await all_succeeded(app, 2000)
        assert per_job(proxy, before).total() <= 0.2 * 2000
    await no_drift(app)


@pytest.mark.parametrize("limited", [False, True], ids=["unlimited", "limited"])
async def test_statements_per_job_one_at_a_time(app: App, proxy: Proxy, limited: bool) -> None:
    @app.actor(channel="a")
    async def actor() -> None: ...

    await app.engine.execute("select * from tidegate.change_limit('k', '{\"max_running\": 1000}')")
    async with at_work(app, poll=600.0):
        await asleep(app, "a")
        before = proxy.texts.copy()
        for number in range(50):
            await actor.using(limit_key="k" if limited else None).enqueue()
            await all_succeeded(app, number + 1)
        assert per_job(proxy, before).total() <= 3 * 50


async def test_statements_per_job_with_one_slot_and_a_backlog(app: App, proxy: Proxy) -> None:
    @app.actor(channel="a")
    async def actor() -> None: ...

    await actor.enqueue_many([{} for _ in range(100)])
    before = proxy.texts.copy()
    async with at_work(app, slots=1):
        await all_succeeded(app, 100)
        assert per_job(proxy, before).total() <= 3 * 100


async def test_news_reach_an_idle_worker_before_its_poll(app: App) -> None:
    @app.actor(channel="a")
    async def actor() -> None: ...

    async with at_work(app, poll=600.0):
        await asleep(app, "a")
        for _ in range(20):
            job = (await actor.enqueue()).id
            await in_state(app, job, "succeeded")


async def test_a_worker_that_lost_its_listener_hears_again(app: App, connection: Any) -> None:
    @app.actor(channel="a")
    async def actor() -> None: ...

    async with at_work(app, poll=600.0):
        await asleep(app, "a")
        for _ in range(3):
            pids = await connection.fetch(
                "select pid, pg_terminate_backend(pid, 5000) from pg_stat_activity"
                " where datname = current_database() and application_name = 'tidegate listener'"
            )
            job = (await actor.enqueue()).id
            await in_state(app, job, "succeeded")
            assert len(pids) <= 1


async def test_a_worker_without_notifications_polls(app: App) -> None:
    @app.actor(channel="a")
    async def actor() -> None: ...

    async with at_work(app, poll=0.2, listen_url="postgresql://nobody@127.0.0.1:1/none"):
        await asleep(app, "a")
        job = (await actor.enqueue()).id
        await in_state(app, job, "succeeded")


async def test_a_busy_worker_gives_up_notifications_and_an_idle_one_asks_for_them(app: App, connection: Any) -> None:
    gate = asyncio.Event()

    @app.actor(channel="a")
    async def held() -> None:
        await gate.wait()

    async with at_work(app, slots=1, poll=600.0):
        await asleep(app, "a")
        first = (await held.enqueue()).id
        await in_state(app, first, "running")
        # its slot is taken, so news are no use: each of these may end the registration, once a second has gone by
        jobs = []
        async with asyncio.timeout(30):
            while await connection.fetchval("select count(*) from tidegate.sleepers"):
                jobs.append((await held.enqueue()).id)
                await asyncio.sleep(0.1)
        gate.set()
        for job in jobs:
            await in_state(app, job, "succeeded")
        await asleep(app, "a")
