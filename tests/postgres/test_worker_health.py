"""Health of a worker as probes and Prometheus see it."""

import asyncio
import logging
import socket
import threading
from collections.abc import AsyncIterator, Callable
from time import monotonic

import pytest

from tests.postgres.health_answers import ANYWHERE, get, get_at_once, health, metrics, port_of, readiness
from tests.postgres.workers_at_work import DEADLINE, Gate, Worker, all_succeeded, at_work, in_state, state_of, until
from tidegate import App, ConfigurationError, MessageLimits, PolicyFailed
from tidegate.store.listening import Listener
from tidegate.testing import RecordingPolicy


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[App]:
    async with App(database_url) as app:
        yield app


async def test_a_worker_tells_how_it_is(app: App) -> None:
    gate = Gate()

    @app.actor(channel="a")
    async def held() -> None:
        await gate.pass_through()

    limits = MessageLimits(max_messages=3, max_payload_bytes=100)
    async with at_work(app, limits=limits, health_address=ANYWHERE) as worker:
        await held.enqueue()
        await gate.reached()
        assert await health(worker) == (200, {"status": "ok", "problems": []})
        assert await readiness(worker) == 200
        found = await metrics(worker)
        assert found["healthy",] == 1
        assert found["running_messages",] == 1
        assert found["pool_messages", "the worker"] == 1
        assert found["pool_max_messages", "the worker"] == 3
        assert found["pool_bytes", "the worker"] == 2
        assert found["intake_paused", "a"] == 0
        assert found["jobs_total", "claimed"] == 1
        assert (await get(worker, "/elsewhere"))[0] == 404
        gate.leave.set()
        await all_succeeded(app, 1)
        await until(lambda: at_value(worker, ("jobs_total", "succeeded"), 1))


async def at_value(worker: Worker, name: tuple[str, ...], value: float) -> bool:
    return (await metrics(worker)).get(name) == value


async def test_an_address_that_is_taken_is_named(app: App) -> None:
    @app.actor(channel="a")
    async def actor() -> None: ...

    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigurationError, match=f"health_address {address} cannot be listened on"):
            await app.run_worker(health_address=address)


async def test_neither_a_pause_nor_a_lost_database_makes_a_worker_unready_or_unhealthy(app: App) -> None:
    @app.actor(channel="a")
    async def actor() -> None: ...

    async with at_work(app, health_address=ANYWHERE, listen_url="postgresql://nobody@127.0.0.1:1/none") as worker:
        worker.runtime.pause()
        assert await readiness(worker) == 200
        assert (await health(worker))[0] == 200
        assert (await metrics(worker))["intake_paused", "a"] == 1
        await actor.enqueue()
        worker.runtime.resume()
        await all_succeeded(app, 1)


async def test_a_drained_worker_turns_unready_when_it_is_empty_and_stays(app: App) -> None:
    gate = Gate()

    @app.actor(channel="a")
    async def held() -> None:
        await gate.pass_through()

    async with at_work(app, health_address=ANYWHERE, lease=3.0) as worker:
        job = (await held.enqueue()).id
        await gate.reached()
        assert await app.engine.fetchval("select tidegate.drain_worker($1)", (await state_of(app, job))["worker"])
        await until(lambda: returns(lambda: worker.runtime._claimer._draining))
        assert await readiness(worker) == 200, "it holds a job"
        gate.leave.set()
        await until(lambda: is_unready(worker))
        assert (await state_of(app, job))["state"] == "succeeded"
        assert (await health(worker))[0] == 200
        late = (await held.enqueue()).id
        assert not worker.task.done()
        assert await worker.drained() == 0
        assert (await state_of(app, late))["state"] == "ready"


async def returns(call: Callable[[], bool]) -> bool:
    return call()


async def is_unready(worker: Worker) -> bool:
    return await readiness(worker) == 503


async def test_a_failed_policy_shows_until_the_worker_has_drained(app: App) -> None:
    gate = Gate()
    policy = RecordingPolicy()

    @app.actor(channel="a")
    async def held() -> None:
        await gate.pass_through()

    @app.actor(channel="a", limit_policies=(policy,))
    async def priced() -> None: ...

    async with at_work(app, health_address=ANYWHERE) as worker:
        await held.enqueue()
        await gate.reached()
        policy.fail_reserve = ValueError("no price")
        job = (await priced.enqueue()).id
        await until(lambda: is_failing(worker))
        status, told = await health(worker)
        assert (status, told["status"]) == (503, "failed")
        assert told["problems"] == [str(PolicyFailed("RecordingPolicy", "reserve"))]
        gate.leave.set()
        assert await worker.stopped() == 1
    row = await state_of(app, job)
    assert (row["state"], row["attempt"]) == ("ready", 0)


async def is_failing(worker: Worker) -> bool:
    return (await health(worker))[0] == 503


async def test_a_dead_loop_shows(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()

    @app.actor(channel="a")
    async def held() -> None:
        await gate.pass_through()

    broken = asyncio.Event()

    async def listen(_self: Listener, opened: Callable[[], None], _heard: Callable[[str], None]) -> None:
        opened()
        await broken.wait()
        raise RuntimeError("a row")

    monkeypatch.setattr(Listener, "listen", listen)
    async with at_work(app, health_address=ANYWHERE) as worker:
        await held.enqueue()
        await gate.reached()
        broken.set()
        await until(lambda: is_failing(worker))
        assert (await health(worker))[1]["problems"] == ["the loop of the notifications ended: RuntimeError"]
        gate.leave.set()
        assert await worker.stopped() == 1


async def test_a_blocked_event_loop_is_reported_with_the_actor_that_blocks_it(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []

    @app.actor(channel="a")
    async def blocks(port: int) -> None:
        until_then = monotonic() + DEADLINE
        while "blocks" not in (text := get_at_once(port, "/healthz")[1]) and monotonic() < until_then:
            threading.Event().wait(0.01)
        told.append(text)
        told.append(get_at_once(port, "/metrics")[1])

    with caplog.at_level(logging.WARNING):
        async with at_work(app, health_address=ANYWHERE, lease=3.0) as worker:
            job = (await blocks.enqueue(port=await port_of(worker))).id
            await in_state(app, job, "succeeded")
            assert await health(worker) == (200, {"status": "ok", "problems": []})
    assert '"actor": "blocks"' in told[0]
    assert "test_worker_health.py" in told[0] or "threading.py" in told[0] or "http" in told[0] or "socket" in told[0]
    assert "tidegate_worker_loop_blocked_seconds 0.0" not in told[1]
    blocked = [record for record in caplog.records if record.getMessage() == "the event loop is blocked"]
    assert [record.__dict__["actor"] for record in blocked] == ["blocks"]
