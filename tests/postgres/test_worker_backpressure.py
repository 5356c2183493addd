"""Each strategy of backpressure on a real worker and database, into it and out of it; pauses by hand; bad policies."""

import asyncio
import logging
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest

from tests.postgres.health_answers import ANYWHERE, metrics
from tests.postgres.limited_work import Hall, arguments, in_states, running, states
from tests.postgres.workers_at_work import Worker, all_succeeded, asleep, at_work, no_drift, until
from tidegate import ActorLimits, App, BackpressurePolicy, Channel, ConfigurationError, MessageLimits, PolicyFailed
from tidegate.app import Worker as PublicWorker
from tidegate.testing import RecordingPolicy


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[App]:
    async with App(database_url) as app:
        yield app


@pytest.fixture
def hall() -> Hall:
    return Hall()


@pytest.fixture(autouse=True)
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "tidegate.worker")
    return caplog


def limits(*strategies: Any, **fields: Any) -> MessageLimits:
    return MessageLimits(max_messages=6, backpressure=BackpressurePolicy(strategies=strategies, **fields))


def transitions(told: pytest.LogCaptureFixture) -> list[tuple[str, str, str]]:
    """Return what the log says of backpressure: whether it holds back, how, and for whom."""
    return [
        ("holds" if "holds" in record.getMessage() else "lets", record.__dict__["strategy"], record.__dict__["queue"])
        for record in told.records
        if record.getMessage().startswith("backpressure")
    ]


def declare(app: App, hall: Hall, **limited: Any) -> tuple[Any, Any]:
    """Declare an actor that runs once at a time, in queue a, and one without limits in queue b."""

    @app.actor(channel="a", **(limited or {"limits": ActorLimits(max_messages=1)}))
    async def narrow() -> None:
        await hall.stay("narrow")

    @app.actor(channel="b")
    async def wide() -> None:
        await hall.stay("wide")

    return narrow, wide


async def is_full(app: App, count: int) -> bool:
    return sum((await running(app)).values()) == count


def lines_of(told: pytest.LogCaptureFixture, *texts: str) -> list[str]:
    """Return which of these lines the log has of queue a."""
    return [
        record.getMessage()
        for record in told.records
        if record.getMessage() in texts and record.__dict__["queue"] == "a"
    ]


async def test_native_claims_only_what_can_run(app: App, hall: Hall, told: pytest.LogCaptureFixture) -> None:
    told.set_level(logging.DEBUG, "tidegate.worker")
    narrow, wide = declare(app, hall)
    async with at_work(app, limits=limits("native"), health_address=ANYWHERE, poll=600.0) as worker:
        await narrow.enqueue_many(arguments(5))
        await hall.holds(narrow=1)
        await until(lambda: has_turned_away(worker, "a"))
        await wide.enqueue_many(arguments(2))
        await hall.holds(narrow=1, wide=2)
        assert await running(app) == {"narrow": 1, "wide": 2}
        found = await metrics(worker)
        assert found["pool_messages", "the actors of channel 'a'"] == 1
        assert found["pool_max_messages", "the actors of channel 'a'"] == 1
        assert found["waiting_messages",] == 0
        hall.leave.set()
        await all_succeeded(app, 7)
    assert transitions(told) == [], "it is no pause"
    room = lines_of(told, "no room for a queue", "room for a queue again")
    assert room[:2] == ["no room for a queue", "room for a queue again"]
    assert all(one != other for one, other in pairwise(room)), "it is told when it changes, and not each time"
    await no_drift(app)


async def has_turned_away(worker: Worker, queue: str) -> bool:
    return (await metrics(worker))["intake_full_total", queue] > 0


async def test_channel_pause_stops_the_claims_of_its_queue_alone(
    app: App, hall: Hall, told: pytest.LogCaptureFixture
) -> None:
    narrow, wide = declare(app, hall)
    async with at_work(app, limits=limits("channel_pause"), health_address=ANYWHERE, poll=600.0) as worker:
        await narrow.enqueue_many(arguments(2))
        await until(lambda: is_full(app, 2))
        await until(lambda: is_paused(worker, "a"))
        await narrow.enqueue_many(arguments(2))
        await wide.enqueue_many(arguments(2))
        await hall.holds(narrow=1, wide=2)
        assert await running(app) == {"narrow": 2, "wide": 2}
        found = await metrics(worker)
        assert found["backpressure_pauses_total", "a", "channel_pause"] == 1
        assert (found["intake_paused", "a"], found["intake_paused", "b"]) == (1, 0)
        assert found["waits", "actor 'narrow'", "a"] == 1
        hall.leave.set()
        await all_succeeded(app, 6)
        await until(lambda: is_not_paused(worker, "a"))
    seen = transitions(told)
    assert seen[:2] == [("holds", "channel_pause", "a"), ("lets", "channel_pause", "a")]
    assert hall.most["narrow"] == 1
    await no_drift(app)


async def is_paused(worker: Worker, queue: str) -> bool:
    return (await metrics(worker))["intake_paused", queue] == 1


async def is_not_paused(worker: Worker, queue: str) -> bool:
    return not await is_paused(worker, queue)


async def test_worker_pause_stops_every_claim(app: App, hall: Hall, told: pytest.LogCaptureFixture) -> None:
    narrow, wide = declare(app, hall)
    async with at_work(app, limits=limits("worker_pause"), health_address=ANYWHERE, poll=0.1) as worker:
        await narrow.enqueue_many(arguments(2))
        await until(lambda: is_paused(worker, "a"))
        assert (await metrics(worker))["intake_paused", "b"] == 1
        await wide.enqueue_many(arguments(2))
        for _ in range(3):
            await narrow.enqueue()
            assert await running(app) == {"narrow": 2}
        hall.leave.set()
        await all_succeeded(app, 7)
    assert transitions(told)[:2] == [("holds", "worker_pause", "a"), ("lets", "worker_pause", "a")]
    await no_drift(app)


async def test_resubscribe_gives_back_what_waits_and_listens_again_when_it_is_over(
    app: App, hall: Hall, told: pytest.LogCaptureFixture, connection: Any
) -> None:
    narrow, _ = declare(app, hall)
    async with at_work(app, limits=limits("resubscribe"), poll=600.0, health_address=ANYWHERE) as worker:
        await asleep(app, "a", "b")
        await narrow.enqueue_many(arguments(4))
        await hall.holds(narrow=1)
        await in_states(app, running=1, ready=3)
        await until(lambda: listens(connection, False))
        assert {row["attempt"] for row in await app.engine.fetch("select attempt from tidegate.jobs")} == {0, 1}
        assert (await metrics(worker))["backpressure_pauses_total", "a", "resubscribe"] == 1
        hall.leave.set()
        await all_succeeded(app, 4)
        await until(lambda: listens(connection, True))
        assert hall.came == ["narrow"] * 4
        # what is told from here on is heard, since no poll will come
        await asleep(app, "a", "b")
        await narrow.enqueue()
        await all_succeeded(app, 5)
    assert transitions(told)[:2] == [("holds", "resubscribe", "a"), ("lets", "resubscribe", "a")]
    await no_drift(app)


async def listens(connection: Any, expected: bool) -> bool:
    found = await connection.fetchval(
        "select count(*) from pg_stat_activity"
        " where datname = current_database() and application_name = 'tidegate listener'"
    )
    return bool(found) == expected


async def test_no_strategy_buffers_within_the_limits_of_the_intake(
    app: App, hall: Hall, told: pytest.LogCaptureFixture
) -> None:
    told.set_level(logging.DEBUG, "tidegate.worker")
    narrow, _ = declare(app, hall)
    async with at_work(app, limits=limits(), poll=600.0, health_address=ANYWHERE) as worker:
        await narrow.enqueue_many(arguments(10))
        await until(lambda: is_full(app, 6))
        assert await states(app) == {"running": 6, "ready": 4}
        await until(lambda: has_waits(worker, 5))
        hall.leave.set()
        await all_succeeded(app, 10)
    assert transitions(told) == []
    waits = lines_of(told, "messages wait for capacity", "no message waits for capacity any more")
    assert waits[:2] == ["messages wait for capacity", "no message waits for capacity any more"]
    assert hall.most["narrow"] == 1
    await no_drift(app)


async def has_waits(worker: Worker, count: int) -> bool:
    return (await metrics(worker)).get(("waits", "actor 'narrow'", "a"), 0) == count


@pytest.mark.parametrize(("strategy", "others"), [("native", 2), ("channel_pause", 0)])
async def test_a_paused_channel_holds_back_its_other_actors_and_a_native_one_does_not(
    app: App, hall: Hall, told: pytest.LogCaptureFixture, strategy: Any, others: int
) -> None:
    narrow, _ = declare(app, hall)

    @app.actor(channel="a")
    async def beside() -> None:
        await hall.stay("beside")

    async with at_work(app, limits=limits(strategy), poll=0.1):
        await narrow.enqueue_many(arguments(2))
        await hall.holds(narrow=1)
        if strategy == "channel_pause":
            await until(lambda: tells(told, 1))
        await beside.enqueue_many(arguments(2))
        await hall.holds(narrow=1, beside=others)
        for _ in range(20):  # polls go by in this time
            assert (await running(app)).get("beside", 0) == others
        hall.leave.set()
        await all_succeeded(app, 4)


async def test_each_worker_has_pools_of_its_own(app: App, hall: Hall) -> None:
    narrow, _ = declare(app, hall)
    async with at_work(app, limits=limits("native")), at_work(app, limits=limits("native")):
        await narrow.enqueue_many(arguments(6))
        await hall.holds(narrow=2)
        assert await running(app) == {"narrow": 2}
        hall.leave.set()
        await all_succeeded(app, 6)


def test_error_is_refused_before_anything_is_claimed(database_url: str) -> None:
    app = App(database_url)

    @app.actor(channel="a", limit_policies=(RecordingPolicy(),))
    async def priced() -> None: ...

    native = BackpressurePolicy(strategies=("native",), on_unavailable="error")
    with pytest.raises(ConfigurationError, match=r"channel 'a' demands backpressure .* limit policy RecordingPolicy"):
        PublicWorker(app, limits=MessageLimits(backpressure=native))
    PublicWorker(app, limits=MessageLimits(backpressure=BackpressurePolicy(on_unavailable="error")))


@pytest.mark.parametrize("strategy", ["channel_pause", "worker_pause"])
async def test_intake_goes_on_when_use_has_fallen_to_resume_at(
    app: App, hall: Hall, told: pytest.LogCaptureFixture, strategy: Any
) -> None:
    gates = [asyncio.Event() for _ in range(8)]

    @app.actor(channel="a", limits=ActorLimits(max_messages=4))
    async def quarter(number: int) -> None:
        hall.came.append(str(number))
        await gates[number].wait()

    async with at_work(app, limits=limits(strategy, resume_at=0.5), poll=600.0) as worker:
        await quarter.enqueue_many([{"number": number} for number in range(5)])
        await until(lambda: has_come(hall, 4))
        await until(lambda: tells(told, 1))
        gates[0].set()  # the fifth runs: nobody waits, but the pool is full
        await until(lambda: has_come(hall, 5))
        gates[1].set()
        await in_states(app, succeeded=2, running=3)
        assert transitions(told) == [("holds", strategy, "a")], "three of four are above the half"
        gates[2].set()
        await until(lambda: tells(told, 2))
        assert worker.runtime.flow.backpressure.reasons("a") == []
        for gate in gates:
            gate.set()
    assert transitions(told) == [("holds", strategy, "a"), ("lets", strategy, "a")]


async def has_come(hall: Hall, count: int) -> bool:
    return len(hall.came) >= count


async def tells(told: pytest.LogCaptureFixture, count: int) -> bool:
    return len(transitions(told)) >= count


async def test_a_channel_has_backpressure_of_its_own(app: App, hall: Hall, told: pytest.LogCaptureFixture) -> None:
    own = MessageLimits(backpressure=BackpressurePolicy(strategies=("channel_pause",)))
    narrow, _ = declare(app, hall)

    @app.actor(channel=Channel("c", limits=own), limits=ActorLimits(max_messages=1))
    async def third() -> None:
        await hall.stay("third")

    async with at_work(app, limits=limits("native"), poll=600.0):
        await narrow.enqueue_many(arguments(3))
        await hall.holds(narrow=1)
        await third.enqueue_many(arguments(2))
        await until(lambda: tells(told, 1))
        hall.leave.set()
        await all_succeeded(app, 5)
    assert {queue for _, _, queue in transitions(told)} == {"c"}


@pytest.mark.parametrize(("strategy", "kept"), [("channel_pause", 2), ("worker_pause", 2), ("resubscribe", 1)])
async def test_a_pause_by_hand_and_backpressure_never_end_each_other(
    app: App, hall: Hall, told: pytest.LogCaptureFixture, strategy: Any, kept: int
) -> None:
    narrow, _wide = declare(app, hall)
    async with at_work(app, limits=limits(strategy), poll=0.1, health_address=ANYWHERE) as worker:
        await narrow.enqueue_many(arguments(2))
        await until(lambda: tells(told, 1))
        worker.runtime.pause()
        worker.runtime.resume()
        assert await is_paused(worker, "a"), "backpressure goes on"
        worker.runtime.pause()
        hall.leave.set()
        await until(lambda: tells(told, 2))
        await all_succeeded(app, kept)
        assert await is_paused(worker, "a"), "the pause by hand goes on"
        await narrow.enqueue_many(arguments(2))
        # polls go by in this time, and a paused worker spends none of them on a claim
        for _ in range(20):
            assert await states(app) == {"succeeded": kept, "ready": 4 - kept}
        worker.runtime.resume()
        await all_succeeded(app, 4)
    await no_drift(app)


async def test_messages_that_wait_in_a_policy_pause_their_channel(
    app: App, hall: Hall, told: pytest.LogCaptureFixture
) -> None:
    policy = RecordingPolicy(1)
    narrow, wide = declare(app, hall, limit_policies=(policy,))
    async with at_work(app, limits=MessageLimits(max_messages=6), poll=600.0):
        await narrow.enqueue_many(arguments(2))
        await until(lambda: tells(told, 1))
        await wide.enqueue_many(arguments(2))
        await hall.holds(narrow=1, wide=2)
        hall.leave.set()
        await all_succeeded(app, 4)
        await until(lambda: tells(told, 2))
    assert transitions(told)[0] == ("holds", "channel_pause", "a"), "native cannot tell what a policy has room for"
    assert sorted(policy.seen("granted")) == sorted(policy.seen("released"))


async def test_a_policy_that_hangs_gives_its_message_back_unspent_at_the_end(app: App, hall: Hall) -> None:
    policy = RecordingPolicy(1)
    narrow, _ = declare(app, hall, limit_policies=(policy,))
    async with at_work(app) as worker:
        await narrow.enqueue_many(arguments(2))
        await hall.holds(narrow=1)
        await until(lambda: has_waited(policy))
        worker.runtime.stop()
        await in_states(app, running=1, ready=1)
        hall.leave.set()
        assert await worker.stopped() == 0
    assert await states(app) == {"succeeded": 1, "ready": 1}
    assert [event.what for event in policy.events if event.what in ("cancelled", "released")] == [
        "cancelled",
        "released",
    ]


async def has_waited(policy: RecordingPolicy) -> bool:
    return bool(policy.seen("wait"))


async def test_a_lease_that_fails_to_release_ends_the_worker_with_an_error(
    app: App, hall: Hall, told: pytest.LogCaptureFixture
) -> None:
    policy = RecordingPolicy(fail_release=OSError("no shared storage"))
    narrow, wide = declare(app, hall, limit_policies=(policy,))
    async with at_work(app) as worker:
        await wide.enqueue()
        await hall.holds(wide=1)
        await narrow.enqueue()
        await hall.holds(narrow=1)
        hall.leave.set()
        await in_states(app, succeeded=2)
        assert await worker.stopped() == 1
    assert isinstance(worker.runtime.flow.failure, PolicyFailed)
    assert "a limit policy failed, the worker stops" in told.text


async def test_a_release_that_hangs_ends_the_worker_with_an_error_and_not_never(
    app: App, hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stuck(RecordingPolicy):
        async def give_back(self, _message: int) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr("tidegate.runtime.workers.LAST_CALLS", 0.5)
    narrow, _ = declare(app, hall, limit_policies=(Stuck(),))
    hall.leave.set()
    async with at_work(app) as worker:
        await narrow.enqueue()
        await all_succeeded(app, 1)
        assert await worker.drained() == 1
