"""Limits of one process on a real worker and database: the documented examples, sizes, and what goes back."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from tests.postgres.limited_work import Hall, WorkLimitPolicy, arguments, in_states, running, states
from tests.postgres.workers_at_work import all_succeeded, at_work, in_state, no_drift, until
from tidegate import (
    ActorLimits,
    App,
    Channel,
    ConfigurationError,
    MessageLimits,
    OversizedPayloadAction,
    ReceivedMessageT,
    Router,
)
from tidegate.app import Worker
from tidegate.ports import ClaimReply, ClaimRequest
from tidegate.store.workers import WorkerStore
from tidegate.testing import RecordingPolicy

MEBIBYTE = 1024 * 1024


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[App]:
    async with App(database_url) as app:
        yield app


@pytest.fixture
def hall() -> Hall:
    return Hall()


class NotingStore(WorkerStore):
    """Notes what claims asked for and brought."""

    def __init__(self, app: App) -> None:
        super().__init__(app.database_url, heartbeat_timeout=timedelta(seconds=10))
        self.claims: list[tuple[ClaimRequest, ClaimReply]] = []
        self.fetched: list[int] = []

    async def claim(self, request: ClaimRequest) -> ClaimReply:
        reply = await super().claim(request)
        self.claims.append((request, reply))
        return reply

    async def payload_of(self, job: int, worker: Any, claim: int) -> str | None:
        self.fetched.append(job)
        return await super().payload_of(job, worker, claim)


async def test_an_actor_runs_four_of_its_routers_twenty(app: App, hall: Hall) -> None:
    router = Router(limits=ActorLimits(max_messages=20))
    channel = Channel("video_jobs", limits=MessageLimits(max_messages=100, max_payload_bytes=256 * MEBIBYTE))

    @router.actor(channel=channel, limits=ActorLimits(max_messages=4))
    async def transcode() -> None:
        await hall.stay("transcode")

    @router.actor(channel="others")
    async def other() -> None:
        await hall.stay("other")

    app.include_router(router)
    async with at_work(app, limits=MessageLimits(max_messages=500)) as worker:
        await transcode.enqueue_many(arguments(30))
        await other.enqueue_many(arguments(30))
        await hall.holds(transcode=4, other=16)
        assert await running(app) == {"transcode": 4, "other": 16}, "claimed is only what can run"
        assert await app.engine.fetchval("select slots from tidegate.workers") == 24
        hall.leave.set()
        await all_succeeded(app, 60)
    assert hall.most["transcode"] == 4
    assert all(usage.messages == usage.bytes == 0 for usage in worker.runtime.flow.usage())
    await no_drift(app)


@pytest.mark.parametrize("shared", [True, False], ids=["one object", "two objects"])
async def test_one_object_is_twelve_slots_and_two_are_twelve_each(app: App, hall: Hall, shared: bool) -> None:
    one = ActorLimits(max_messages=12)
    two = one if shared else ActorLimits(max_messages=12)

    @app.actor(channel="imports", limits=one)
    async def import_rows() -> None:
        await hall.stay("import_rows")

    @app.actor(channel="reports", limits=two)
    async def build_report() -> None:
        await hall.stay("build_report")

    async with at_work(app, limits=MessageLimits()):
        await import_rows.enqueue_many(arguments(20))
        await hall.holds(import_rows=12)
        await build_report.enqueue_many(arguments(20))
        await hall.holds(import_rows=12, build_report=0 if shared else 12)
        assert (await running(app)).get("build_report", 0) == (0 if shared else 12)
        hall.leave.set()
        await all_succeeded(app, 40)
    assert hall.most["import_rows"] <= 12
    assert hall.most["build_report"] <= 12
    await no_drift(app)


@pytest.mark.parametrize(("propagation", "taken"), [("on", 8), ("off", 20)])
async def test_three_and_five_are_propagated_as_eight(app: App, hall: Hall, propagation: Any, taken: int) -> None:
    @app.actor(channel="jobs", limits=ActorLimits(max_messages=3))
    async def resize() -> None:
        await hall.stay("resize")

    @app.actor(channel="jobs", limits=ActorLimits(max_messages=5))
    async def index() -> None:
        await hall.stay("index")

    async with at_work(app, limits=MessageLimits(max_messages=20), actor_limits_propagation=propagation):
        await resize.enqueue_many(arguments(20))
        await index.enqueue_many(arguments(20))
        if propagation == "on":
            await hall.holds(resize=3, index=5)
        await until(lambda: has_running(app, taken))
        hall.leave.set()
        await all_succeeded(app, 40)
    assert hall.most["resize"] == 3
    assert hall.most["index"] == 5 if propagation == "on" else hall.most["index"] <= 5
    await no_drift(app)


async def has_running(app: App, count: int) -> bool:
    return sum((await running(app)).values()) == count


@pytest.mark.parametrize("shared", [True, False], ids=["one object", "four objects"])
async def test_one_policy_is_one_pool_at_every_scope_and_four_are_four(app: App, hall: Hall, shared: bool) -> None:
    first = WorkLimitPolicy(capacity=10)
    worker_policy, channel_policy, router_policy, actor_policy = (
        [first] * 4 if shared else [first, *(WorkLimitPolicy(capacity=10) for _ in range(3))]
    )
    router = Router(limit_policies=(router_policy,))

    @router.actor(channel=Channel("jobs", limit_policies=(channel_policy,)), limit_policies=(actor_policy,))
    async def process() -> None:
        await hall.stay("process")

    app.include_router(router)
    async with at_work(app, limits=MessageLimits(max_messages=30), limit_policies=(worker_policy,)):
        await process.enqueue_many(arguments(25))
        await hall.holds(process=10)
        assert [policy.used for policy in (worker_policy, channel_policy, router_policy, actor_policy)] == [10] * 4
        hall.leave.set()
        await all_succeeded(app, 25)
    assert hall.most["process"] == 10
    assert {policy.used for policy in (worker_policy, channel_policy, router_policy, actor_policy)} == {0}


async def test_a_policy_is_shown_the_message_and_the_actor(app: App) -> None:
    seen: list[tuple[ReceivedMessageT, object]] = []

    class Noting(RecordingPolicy):
        async def reserve(self, message: ReceivedMessageT, actor: Any, on_wait: Any, /) -> Any:
            seen.append((message, actor))
            return await super().reserve(message, actor, on_wait)

    @app.actor(channel="a", limit_policies=(Noting(),), max_attempts=3)
    async def shown(text: str) -> None: ...

    async with at_work(app):
        using = shown.using(headers={"tenant": "t1"}, limit_key="k", group_key="g", priority=7)
        job = (await using.enqueue("héllo")).id
        await in_state(app, job, "succeeded")
    [(message, actor)] = seen
    assert actor is shown.data
    assert (message.id, message.queue, message.actor) == (job, "a", "shown")
    assert (message.attempt, message.max_attempts, message.priority) == (1, 3, 7)
    assert (message.limit_key, message.group_key, message.headers) == ("k", "g", {"tenant": "t1"})
    assert message.payload_bytes == len('{"text": "héllo"}'.encode())
    assert not hasattr(message, "payload")


async def test_a_worker_never_holds_more_than_its_byte_budget(app: App) -> None:
    held: list[int] = []
    most = 0

    @app.actor(channel="a")
    async def sized(text: str) -> None:
        nonlocal most
        [pool] = worker.runtime.flow.usage()
        most = max(most, pool.bytes)
        await asyncio.sleep(0)
        held.append(len(text))

    sizes = [1, 300, 50, 700, 999, 20, 400, 600] * 10
    budget = 1000
    await sized.enqueue_many([{"text": "x" * (size - len('{"text": ""}'))} for size in sizes if size > 12])
    async with at_work(app, limits=MessageLimits(max_payload_bytes=budget), poll=600.0) as worker:
        await all_succeeded(app, 70)
    assert 700 < most <= budget
    assert sorted(held) == sorted(size - 12 for size in sizes if size > 12)
    await no_drift(app)


async def test_a_large_message_waits_for_room_without_a_poll_and_without_being_asked_for_in_vain(
    app: App, hall: Hall
) -> None:
    @app.actor(channel="a")
    async def small(text: str) -> None:
        await hall.stay("small")

    @app.actor(channel="a")
    async def large(text: str) -> None:
        await hall.stay("large")

    store = NotingStore(app)
    async with at_work(app, limits=MessageLimits(max_payload_bytes=1000), poll=600.0, store=store):
        await small.enqueue(text="x" * 300)
        await hall.holds(small=1)
        await large.enqueue(text="x" * 900)
        await small.enqueue_many([{"text": "x" * 50} for _ in range(3)])
        await until(lambda: was_cut(store))
        assert await running(app) == {"small": 1}, "nothing overtakes the large one in the order of its queue"
        claims = len(store.claims)
        hall.leave.set()
        await all_succeeded(app, 5)
    assert hall.came[:2] == ["small", "large"]
    assert len(store.claims) - claims <= 5
    await no_drift(app)


async def was_cut(store: NotingStore) -> bool:
    return any(reply.cut is not None for _, reply in store.claims)


async def test_an_oversized_message_runs_alone_between_streams_of_small_ones(app: App) -> None:
    beside: list[int] = []
    inside = 0

    @app.actor(channel="a")
    async def small(text: str) -> None:
        nonlocal inside
        inside += 1
        await asyncio.sleep(0)
        inside -= 1

    @app.actor(channel="b")
    async def large(text: str) -> None:
        beside.append(inside)
        await asyncio.sleep(0)
        beside.append(inside)

    await small.enqueue_many([{"text": "x" * 10} for _ in range(300)])
    await large.enqueue_many([{"text": "x" * 2000} for _ in range(10)])
    async with at_work(app, limits=MessageLimits(max_payload_bytes=500), poll=600.0):
        await all_succeeded(app, 310)
    assert beside == [0] * 20
    await no_drift(app)


async def test_a_message_of_exactly_the_budget_is_not_oversized(app: App) -> None:
    @app.actor(channel="a")
    async def sized(text: str) -> None: ...

    limits = MessageLimits(max_payload_bytes=100, on_oversized_payload="nack")
    async with at_work(app, limits=limits):
        fits = (await sized.enqueue(text="x" * 88)).id
        above = (await sized.using(max_attempts=1).enqueue(text="x" * 89)).id
        await in_state(app, fits, "succeeded")
        row = await in_state(app, above, "dead")
    assert row["error"] == (
        "OversizedPayload: the payload has 101 bytes, more than max_payload_bytes=100 of the worker"
    )


@pytest.mark.parametrize("scope", ["worker", "channel", "router", "actor"])
async def test_a_refusal_is_a_failed_attempt_without_a_run_or_a_fetch_and_names_its_scope(app: App, scope: str) -> None:
    ran: list[str] = []
    intake = MessageLimits(max_payload_bytes=1000, on_oversized_payload="nack")
    execution = ActorLimits(max_payload_bytes=1000, on_oversized_payload="nack")
    router = Router(limits=execution if scope == "router" else None)

    @router.actor(
        channel=Channel("a", limits=intake if scope == "channel" else None),
        limits=execution if scope == "actor" else None,
        max_attempts=1,
    )
    async def sized(text: str) -> None:
        ran.append(text[:1])

    app.include_router(router)
    store = NotingStore(app)
    async with at_work(app, limits=intake if scope == "worker" else MessageLimits(), store=store, poll=600.0):
        jobs = [(await sized.enqueue(text="x" * size)).id for size in (10, 2000, MEBIBYTE - 100, 10)]
        rows = [await in_state(app, job, "succeeded", "dead") for job in jobs]
    assert [row["state"] for row in rows] == ["succeeded", "dead", "dead", "succeeded"]
    named = {
        "worker": "the worker",
        "channel": "channel 'a'",
        "router": "the router of 'sized'",
        "actor": "actor 'sized'",
    }
    assert rows[1]["error"].endswith(f"more than max_payload_bytes=1000 of {named[scope]}")
    assert ran == ["x", "x"]
    assert store.fetched == []
    await no_drift(app)


async def test_a_rejected_message_goes_back_unspent_with_a_growing_delay_and_runs_where_it_fits(app: App) -> None:
    @app.actor(channel="a")
    async def sized(text: str) -> None: ...

    job = (await sized.enqueue(text="x" * 200)).id
    limits = MessageLimits(max_payload_bytes=100, on_oversized_payload="reject")
    seen: list[Any] = []
    async with at_work(app, limits=limits, poll=600.0) as small:
        for times in range(1, 4):
            await until(lambda times=times: rejected(small, times))  # type: ignore[misc]
            row = await in_state(app, job, "scheduled")
            assert row["attempt"] == 0
            seen.append(row["run_at"])
    # the first delay is a second, the next two, the last four
    assert [later - earlier > timedelta(seconds=2 * n) for n, (earlier, later) in enumerate(pairwise(seen), 1)] == [
        True
    ] * 2
    async with at_work(app, limits=MessageLimits(max_payload_bytes=1000)):
        await in_state(app, job, "succeeded")


async def rejected(worker: Any, times: int) -> bool:
    return bool(worker.runtime.counts.rejected >= times)


async def test_a_function_decides_and_one_that_fails_is_a_failed_attempt(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    def choose(message: ReceivedMessageT) -> OversizedPayloadAction:
        kind = (message.headers or {}).get("kind")
        if kind == "broken":
            raise ValueError("canary")
        return "run_alone" if kind == "critical" else "nack" if kind != "odd" else None  # type: ignore[return-value]

    @app.actor(channel="a", max_attempts=1)
    async def sized(text: str) -> None: ...

    limits = MessageLimits(max_payload_bytes=100, on_oversized_payload=choose)
    ended = {}
    async with at_work(app, limits=limits):
        for kind in ("critical", "plain", "odd", "broken"):
            job = (await sized.using(headers={"kind": kind}).enqueue(text="canary" * 100)).id
            ended[kind] = (await in_state(app, job, "succeeded", "dead"))["state"]
    assert ended == {"critical": "succeeded", "plain": "dead", "odd": "dead", "broken": "dead"}
    assert "canary" not in caplog.text
    assert [record.__dict__["problem"] for record in caplog.records if "problem" in record.__dict__] == [
        "returned NoneType, not one of run_alone, nack, reject",
        "raised ValueError",
    ]


async def test_what_one_claim_brought_runs_in_its_order(app: App) -> None:
    ran: list[int] = []

    @app.actor(channel="a", limits=ActorLimits(max_messages=1))
    async def one_by_one(number: int) -> None:
        ran.append(number)

    async with app.engine.begin() as connection:
        for number, priority in enumerate([0, 5, 0, 9, 5, 0, 9]):
            await one_by_one.using(session=connection, priority=priority).enqueue(number=number)
    async with at_work(app, actor_limits_propagation="off"):
        await all_succeeded(app, 7)
    assert ran == [3, 6, 1, 4, 0, 2, 5]


async def test_what_one_claim_brought_of_a_fair_queue_runs_in_fair_order(app: App) -> None:
    ran: list[str] = []

    @app.actor(channel="a", limits=ActorLimits(max_messages=1))
    async def one_by_one(tenant: str) -> None:
        ran.append(tenant)

    for tenant, count in (("big", 6), ("mid", 2), ("small", 2)):
        await one_by_one.using(group_key=tenant).enqueue_many([{"tenant": tenant} for _ in range(count)])
    store = NotingStore(app)
    async with at_work(app, store=store, fair=True, actor_limits_propagation="off"):
        await all_succeeded(app, 10)
    assert len(store.claims[0][1].jobs) == 10, "all came with one claim"
    assert ran == ["big", "mid", "small"] * 2 + ["big"] * 4


async def test_a_timeout_counts_from_the_start_of_the_code_not_while_it_waits(app: App, hall: Hall) -> None:
    @app.actor(channel="a", limits=ActorLimits(max_messages=1))
    async def slow() -> None:
        await hall.stay("slow")

    async with at_work(app, actor_limits_propagation="off"):
        await slow.enqueue()
        await hall.holds(slow=1)
        waits = (await slow.using(timeout=timedelta(seconds=0.3)).enqueue()).id
        await in_state(app, waits, "running")
        await asyncio.sleep(0.5)  # longer than its timeout
        hall.leave.set()
        row = await in_state(app, waits, "succeeded", "scheduled", "dead")
    assert (row["state"], row["attempt"]) == ("succeeded", 1)


async def test_what_waits_goes_back_at_once_when_the_worker_stops_and_what_runs_finishes(app: App, hall: Hall) -> None:
    @app.actor(channel="a", limits=ActorLimits(max_messages=1))
    async def slow() -> None:
        await hall.stay("slow")

    async with at_work(app, actor_limits_propagation="off", slots=5) as worker:
        await slow.enqueue_many(arguments(8))
        await hall.holds(slow=1)
        await until(lambda: has_running(app, 5))
        worker.runtime.stop()
        await in_states(app, running=1, ready=7)
        assert {row["attempt"] for row in await app.engine.fetch("select attempt from tidegate.jobs")} == {0, 1}
        assert hall.inside["slow"] == 1
        hall.leave.set()
        assert await worker.stopped() == 0
    assert await states(app) == {"ready": 7, "succeeded": 1}
    assert hall.came == ["slow"]
    await no_drift(app)


async def test_a_job_that_waits_to_run_can_be_cancelled(app: App, hall: Hall) -> None:
    @app.actor(channel="a", limits=ActorLimits(max_messages=1))
    async def slow() -> None:
        await hall.stay("slow")

    async with at_work(app, actor_limits_propagation="off"):
        await slow.enqueue()
        await hall.holds(slow=1)
        waits = (await slow.enqueue()).id
        await in_state(app, waits, "running")
        await app.engine.execute("select tidegate.cancel($1)", waits)
        await in_state(app, waits, "cancelled")
        hall.leave.set()
        await all_succeeded(app, 1)
    assert hall.came == ["slow"]


def test_two_channels_of_one_address_with_different_limits_are_refused_by_name(database_url: str) -> None:
    app = App(database_url)

    @app.actor(channel=Channel("a", limits=MessageLimits(max_messages=1)))
    async def one() -> None: ...

    @app.actor(channel=Channel("a", limits=MessageLimits(max_messages=2)))
    async def two() -> None: ...

    with pytest.raises(ConfigurationError, match=r"'a' have different limits: .*max_messages=1.*max_messages=2"):
        Worker(app)
