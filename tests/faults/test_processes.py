"""Worker processes and signals: drain, give back, vanish, freeze, stand still."""

import json
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.proxies import Proxy, proxy_before
from tests.faults.worker_processes import Place, Workers, worker_processes
from tests.postgres.workers_at_work import in_state, no_drift, state_of, until
from tidegate import App


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[App]:
    async with App(database_url) as app:
        yield app


@pytest.fixture
def workers(database_url: str, tmp_path: Path) -> Iterator[Workers]:
    with worker_processes(database_url, tmp_path) as workers:
        yield workers


@pytest.fixture
async def proxy(database_url: str) -> AsyncIterator[Proxy]:
    async with proxy_before(database_url) as proxy:
        yield proxy


async def enqueue(app: App, place: Place, actor: str = "held") -> int:
    payload = json.dumps({"place": str(place.path)})
    job: int = await app.engine.fetchval("select id from tidegate.enqueue('held', $1, $2)", actor, payload)
    return job


async def left(app: App) -> None:
    """Every worker said goodbye."""
    alive = await app.engine.fetchval("select count(*) from tidegate.workers where alive")
    assert alive == 0


def unspent(row: Any) -> bool:
    return (row["state"], row["attempt"], row["lost"], row["worker"]) == ("ready", 0, 0, None)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("actor", ["held", "held_in_thread"])
async def test_a_signal_lets_running_jobs_finish_and_starts_no_more(
    app: App, workers: Workers, number: signal.Signals, actor: str
) -> None:
    running, waiting = workers.place("running"), workers.place("waiting")
    worker = workers.start("--slots", "2")
    first = await enqueue(app, running, actor)
    await running.entered_by(worker)
    worker.send(number)
    await worker.says("stopping")
    second = await enqueue(app, waiting)
    running.open()
    assert await worker.ended() == 0
    assert (await state_of(app, first))["state"] == "succeeded"
    assert unspent(await state_of(app, second))
    assert waiting.visitors == []
    await left(app)


@pytest.mark.parametrize("actor", ["held", "held_in_thread"])
async def test_a_second_signal_gives_running_jobs_back_at_once(app: App, workers: Workers, actor: str) -> None:
    place = workers.place("running")
    worker = workers.start("--grace", "10m")
    job = await enqueue(app, place, actor)
    await place.entered_by(worker)
    worker.send(signal.SIGTERM)
    await worker.says("stopping")
    worker.send(signal.SIGTERM)
    assert await worker.ended() == 75
    assert unspent(await state_of(app, job))
    await left(app)
    await no_drift(app)


async def test_the_end_of_the_grace_period_gives_running_jobs_back(app: App, workers: Workers) -> None:
    place = workers.place("running")
    worker = workers.start("--grace", "100ms")
    job = await enqueue(app, place)
    await place.entered_by(worker)
    worker.send(signal.SIGTERM)
    assert await worker.ended() == 75
    assert unspent(await state_of(app, job))
    await left(app)


async def test_heartbeats_go_on_while_a_worker_drains(app: App, workers: Workers) -> None:
    place = workers.place("running")
    worker = workers.start("--lease", "2s", "--grace", "10m")
    other = workers.start("--lease", "2s")
    await other.says("worker registered")
    await worker.says("worker registered")
    await until(
        lambda: app.engine.fetchval("select bool_and(clock_timestamp() - contact_since > '2 s') from tidegate.workers")
    )
    other.send(signal.SIGTERM)
    assert await other.ended() == 0
    job = await enqueue(app, place)
    await place.entered_by(worker)
    worker.send(signal.SIGTERM)
    await worker.says("stopping")
    stopping_at = await app.engine.fetchval("select clock_timestamp()")
    # another worker that may rescue comes, and two leases go by
    workers.start("--lease", "2s")
    await until(
        lambda: app.engine.fetchval(
            "select max(contact_since) < clock_timestamp() - interval '4 s' and count(*) = 2"
            " from tidegate.workers where alive"
        )
    )
    assert await app.engine.fetchval("select max(seen_at) > $1 from tidegate.workers", stopping_at)
    row = await state_of(app, job)
    assert (row["state"], row["lost"]) == ("running", 0)
    place.open()
    assert await worker.ended() == 0
    assert (await state_of(app, job))["state"] == "succeeded"


async def test_a_killed_worker_is_rescued_by_another_and_its_job_spends_no_attempt(app: App, workers: Workers) -> None:
    place = workers.place("running")
    victim = workers.start("--lease", "2s", "--slots", "1")
    job = await enqueue(app, place)
    await place.entered_by(victim)
    rescuer = workers.start("--lease", "2s", "--slots", "1")
    await rescuer.says("worker registered")
    victim.send(signal.SIGKILL)
    assert await victim.ended() == -signal.SIGKILL
    await place.entered_by(rescuer)
    await rescuer.says("took back the jobs of a worker that is gone")
    place.open()
    row = await in_state(app, job, "succeeded")
    assert (row["attempt"], row["lost"]) == (1, 1)
    assert place.visitors == [str(victim.pid), str(rescuer.pid)]
    await no_drift(app)


@pytest.mark.parametrize("actor", ["held", "held_in_thread"])
async def test_a_process_frozen_past_its_lease_changes_nothing_when_it_wakes(
    app: App, workers: Workers, actor: str
) -> None:
    place = workers.place("running")
    frozen = workers.start("--lease", "2s", "--slots", "1")
    job = await enqueue(app, place, actor)
    await place.entered_by(frozen)
    rescuer = workers.start("--lease", "2s", "--slots", "1")
    await rescuer.says("worker registered")
    frozen.send(signal.SIGSTOP)
    await place.entered_by(rescuer)
    frozen.send(signal.SIGCONT)
    if actor == "held":
        await frozen.says("this worker was held for dead")
        await until(lambda: app.engine.fetchval("select count(*) = 2 from tidegate.workers where alive"))
    else:
        # what a thread does cannot be stopped, so the process ends
        assert await frozen.ended() == 70
    row = await state_of(app, job)
    assert (row["state"], row["attempt"], row["lost"]) == ("running", 1, 1)
    place.open()
    row = await in_state(app, job, "succeeded")
    assert (row["attempt"], row["lost"]) == (1, 1)
    await no_drift(app)


async def test_an_event_loop_that_stands_still_ends_the_process(app: App, workers: Workers) -> None:
    place = workers.place("running")
    worker = workers.start("--lease", "1s", "--stall-limit", "2s")
    job = await enqueue(app, place, "blocking")
    assert await worker.ended() == 70
    # it is found in the log who did it, and where
    log = worker.log.read_text(encoding="utf-8")
    assert "the event loop stood still" in log
    assert "blocking" in log
    assert "held_jobs.py" in log
    # heartbeats went on until then: nobody was allowed to take the job away
    assert (await state_of(app, job))["state"] == "running"


async def test_a_busy_event_loop_loses_no_lease(app: App, workers: Workers) -> None:
    place = workers.place("running")
    worker = workers.start("--lease", "1s")
    other = workers.start("--lease", "1s")
    await worker.says("worker registered")
    await other.says("worker registered")
    job = await enqueue(app, place, "blocking")
    await place.entered_by()
    # three leases go by while one of the loops does not turn
    held_since = await app.engine.fetchval("select clock_timestamp()")
    await until(
        lambda: app.engine.fetchval(
            "select min(seen_at) > $1::timestamptz + interval '3 s' from tidegate.workers", held_since
        )
    )
    row = await state_of(app, job)
    assert (row["state"], row["lost"]) == ("running", 0)
    place.open()
    await in_state(app, job, "succeeded")
    assert len(place.visitors) == 1


async def test_a_worker_asked_to_drain_finishes_and_ends(app: App, workers: Workers) -> None:
    place = workers.place("running")
    worker = workers.start("--lease", "2s")
    job = await enqueue(app, place)
    await place.entered_by(worker)
    assert await app.engine.fetchval("select tidegate.drain_worker($1)", (await state_of(app, job))["worker"])
    waiting = await enqueue(app, place)
    await worker.says("asked to drain")
    place.open()
    assert await worker.ended() == 0
    assert (await state_of(app, job))["state"] == "succeeded"
    assert unspent(await state_of(app, waiting))


async def test_logs_and_errors_hold_no_password_and_no_payload(app: App, workers: Workers, proxy: Proxy) -> None:
    place = workers.place("s3cret-payload")
    url = proxy.url
    password = url.partition("://")[2].partition("@")[0].partition(":")[2]
    worker = workers.start("--log-level", "debug", "--log-format", "json", "--lease", "2s", database_url=url)
    await enqueue(app, place)
    await place.entered_by(worker)
    await app.engine.execute("select tidegate.enqueue('held', 'held', '{\"nowhere\": \"s3cret-payload\"}')")
    await worker.says("a job failed for good")
    proxy.cut()
    await worker.says("the database does not answer")
    proxy.resume()
    await worker.says("the database answers again")
    place.open()
    worker.send(signal.SIGTERM)
    assert await worker.ended() == 0
    log = worker.log.read_text(encoding="utf-8")
    assert password
    assert password not in log
    assert "s3cret-payload" not in log
    for line in log.splitlines():
        assert {"time", "level", "logger", "message"} <= json.loads(line).keys()


async def test_a_job_that_kills_its_process_is_dead_and_what_ran_beside_it_is_not(app: App, workers: Workers) -> None:
    deadly, beside = workers.place("deadly"), workers.place("beside")
    payload = json.dumps({"place": str(deadly.path), "beside": str(beside.path)})
    killer = await app.engine.fetchval("select id from tidegate.enqueue('held', 'deadly', $1)", payload)
    neighbour = await enqueue(app, beside)
    # two workers fewer to kill
    await app.engine.execute("update tidegate.jobs set lost = 2")
    workers.start("--lease", "1s", "--queue", "another")  # it takes back what the others held
    assert await workers.start("--lease", "1s").ended() == 9
    beside.open()
    deadly.tell("alone")
    for _ in range(2):
        await in_state(app, killer, "ready")
        assert await workers.start("--lease", "1s").ended() == 9
    assert (await in_state(app, killer, "dead"))["error"] == "the worker vanished while it ran this job, the fifth time"
    workers.start("--lease", "1s")
    row = await in_state(app, neighbour, "succeeded", "dead")
    assert (row["state"], row["attempt"], row["lost"]) == ("succeeded", 1, 3)
    await no_drift(app)
