"""The examples of the documentation of limits, run; and whole workers of random scopes."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.flow.policies import LimitPolicyT, OnWait
from tidegate.flow.scopes import ActorScope, ChannelScope, RouterScope
from tidegate.model.capacity import (
    ActorLimits,
    BackpressurePolicy,
    MessageLimits,
    OversizedPayloadAction,
)
from tidegate.model.messages import ReceivedMessageT
from tidegate.routing.actors import ActorData
from tidegate.testing import InMemoryWorker, MessageRun, RecordingPolicy, in_memory_actor, received


class Bench:
    """Runs many messages whose code waits for a word, and counts how many run at once."""

    def __init__(self, worker: InMemoryWorker) -> None:
        self.worker = worker
        self.running: list[str] = []
        self.most: dict[str, int] = {}
        self.go = asyncio.Event()
        self.runs: list[asyncio.Task[MessageRun]] = []

    async def start(self, actor: str, number: int, **fields: Any) -> None:
        async def code() -> None:
            self.running.append(actor)
            self.most[actor] = max(self.most.get(actor, 0), self.running.count(actor))
            await self.go.wait()
            self.running.remove(actor)

        self.runs += [asyncio.create_task(self.worker.run(received(actor, **fields), code)) for _ in range(number)]
        for _ in range(number + 20):
            await asyncio.sleep(0)

    async def finish(self) -> None:
        self.go.set()
        async with asyncio.timeout(20):
            await asyncio.gather(*self.runs)


async def test_an_actor_runs_four_of_its_routers_twenty() -> None:
    router = RouterScope(limits=ActorLimits(max_messages=20))
    limits = MessageLimits(max_messages=100, max_payload_bytes=256 * 1024 * 1024)
    worker = InMemoryWorker(
        [
            in_memory_actor("transcode", channel="video_jobs", router=router, limits=ActorLimits(max_messages=4)),
            in_memory_actor("other", router=router),
        ],
        channels=[ChannelScope(address="video_jobs", limits=limits)],
        limits=MessageLimits(max_messages=500),
    )
    bench = Bench(worker)
    await bench.start("transcode", 30, queue="video_jobs")
    await bench.start("other", 30)
    assert bench.most == {"transcode": 4, "other": 16}
    cap = next(usage for usage in worker.flow.usage() if usage.name == "the actors of channel 'video_jobs'")
    assert (cap.max_messages, cap.messages) == (4, 4)
    await bench.finish()
    assert bench.most["transcode"] == 4


async def test_one_object_is_twelve_slots_together() -> None:
    database = ActorLimits(max_messages=12)
    worker = InMemoryWorker(
        [
            in_memory_actor("import_rows", channel="imports", limits=database),
            in_memory_actor("build_report", channel="reports", limits=database),
        ]
    )
    bench = Bench(worker)
    await bench.start("import_rows", 12, queue="imports")
    await bench.start("build_report", 1, queue="reports")
    assert bench.most == {"import_rows": 12}
    await bench.finish()
    assert bench.most == {"import_rows": 12, "build_report": 1}


async def test_two_objects_are_twelve_slots_each() -> None:
    worker = InMemoryWorker(
        [
            in_memory_actor("import_rows", channel="imports", limits=ActorLimits(max_messages=12)),
            in_memory_actor("build_report", channel="reports", limits=ActorLimits(max_messages=12)),
        ]
    )
    bench = Bench(worker)
    await bench.start("import_rows", 20, queue="imports")
    await bench.start("build_report", 20, queue="reports")
    assert bench.most == {"import_rows": 12, "build_report": 12}
    await bench.finish()


@pytest.mark.parametrize(("propagation", "cap"), [("on", 8), ("off", 1000)])
async def test_three_and_five_are_propagated_as_eight(propagation: Any, cap: int) -> None:
    worker = InMemoryWorker(
        [
            in_memory_actor("resize", limits=ActorLimits(max_messages=3)),
            in_memory_actor("index", limits=ActorLimits(max_messages=5)),
        ],
        propagation=propagation,
    )
    ask = worker.flow.intake.ask("jobs")
    assert ask is not None
    assert ask.slots == min(cap, 500)
    assert ask.rooms == ((3, 5) if propagation == "on" else None)
    bench = Bench(worker)
    await bench.start("resize", 10)
    await bench.start("index", 10)
    assert bench.most["resize"] == 3
    await bench.finish()
    assert bench.most == {"resize": 3, "index": 5}


class WorkLimitPolicy:
    """A local policy: each message costs one unit of work."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError("capacity must be positive")
        self.capacity = capacity
        self.used = 0
        self.most = 0
        self.changed = asyncio.Condition()

    async def reserve(self, _message: ReceivedMessageT, _actor: ActorData, on_wait: OnWait) -> WorkLease:
        if self.used >= self.capacity:
            await on_wait()
        async with self.changed:
            await self.changed.wait_for(lambda: self.used < self.capacity)
            self.used += 1
            self.most = max(self.most, self.used)
            return WorkLease(self)


class WorkLease:
    """One unit of work."""

    def __init__(self, policy: WorkLimitPolicy) -> None:
        self.policy = policy
        self.released = False

    async def release(self) -> None:
        async with self.policy.changed:
            if not self.released:
                self.released = True
                self.policy.used -= 1
                self.policy.changed.notify_all()


def worker_of_policies(worker: LimitPolicyT, channel: LimitPolicyT, router: LimitPolicyT, actor: LimitPolicyT) -> Any:
    return InMemoryWorker(
        [in_memory_actor("process", router=RouterScope(limit_policies=(router,)), limit_policies=(actor,))],
        channels=[ChannelScope(address="jobs", limit_policies=(channel,))],
        limit_policies=(worker,),
    )


async def test_one_policy_object_is_one_pool_of_a_hundred() -> None:
    work = WorkLimitPolicy(capacity=100)
    bench = Bench(worker_of_policies(work, work, work, work))
    await bench.start("process", 120)
    assert (bench.most, work.used) == ({"process": 100}, 100)
    await bench.finish()
    await bench.worker.settle()
    assert (work.used, work.most) == (0, 100)


async def test_four_policy_objects_are_a_slot_each_of_every_message() -> None:
    works = [WorkLimitPolicy(capacity=100) for _ in range(4)]
    bench = Bench(worker_of_policies(*works))
    await bench.start("process", 30)
    assert [work.used for work in works] == [30] * 4
    await bench.finish()
    await bench.worker.settle()
    assert [work.used for work in works] == [0] * 4


async def test_a_function_chooses_by_the_headers_of_an_oversized_message() -> None:
    def choose(message: ReceivedMessageT) -> OversizedPayloadAction:
        return "run_alone" if message.headers and message.headers.get("priority") == "critical" else "nack"

    limits = MessageLimits(max_payload_bytes=10 * 1024 * 1024, on_oversized_payload=choose)
    worker = InMemoryWorker([in_memory_actor("process")], limits=limits)

    async def run(**fields: Any) -> MessageRun:
        async def code() -> None:
            return None

        return await worker.run(received("process", payload_bytes=11 * 1024 * 1024, **fields), code)

    assert (await run(headers={"priority": "critical"})).outcome == "ran"
    refused = await run()
    assert (refused.outcome, refused.scope) == ("nack", "the worker")


COUNTS = st.sampled_from([None, 1, 2, 5])
BUDGETS = st.sampled_from([None, 5, 10, 20])
STRATEGIES: Any = st.sampled_from([("native", "channel_pause"), (), ("channel_pause",), ("worker_pause",)])


@st.composite
def declared(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of a worker: shared and own objects at every scope."""

    def message_limits() -> MessageLimits:
        policy = BackpressurePolicy(strategies=draw(STRATEGIES), resume_at=draw(st.sampled_from([0, 0.5, 1])))
        return MessageLimits(max_messages=draw(COUNTS), max_payload_bytes=draw(BUDGETS), backpressure=policy)

    limits = [None, *(ActorLimits(max_messages=draw(COUNTS), max_payload_bytes=draw(BUDGETS)) for _ in range(3))]
    policies = st.lists(st.sampled_from([RecordingPolicy(1), RecordingPolicy(3), RecordingPolicy()]), max_size=2)
    routers = [RouterScope(limits=draw(st.sampled_from(limits)), limit_policies=tuple(draw(policies))) for _ in "12"]
    channels = [
        ChannelScope(address=queue, limits=draw(st.sampled_from([None, message_limits()]))) for queue in ("q0", "q1")
    ]
    actors: list[ActorScope] = [
        in_memory_actor(
            name,
            channel=draw(st.sampled_from(["q0", "q1"])),
            router=draw(st.sampled_from(routers)),
            limits=draw(st.sampled_from(limits)),
            limit_policies=tuple(draw(policies)),
        )
        for name in "abc"
    ]
    return {
        "actors": actors,
        "channels": channels,
        "limits": message_limits(),
        "limit_policies": tuple(draw(policies)),
        "propagation": draw(st.sampled_from(["on", "off"])),
    }


@given(
    declared(),
    st.lists(
        st.tuples(st.sampled_from(["q0", "q1"]), st.sampled_from("abc"), st.sampled_from([1, 2, 5, 9, 10, 11, 25])),
        max_size=25,
    ),
    st.randoms(use_true_random=False),
)
@settings(max_examples=120)
def test_whole_workers_keep_every_budget_and_lose_nothing_whoever_is_cancelled(
    arguments: dict[str, Any], jobs: list[tuple[str, str, int]], random: Random
) -> None:
    asyncio.run(run_and_cancel(arguments, jobs, random))


class Whole:
    """A worker of random scopes, whose budgets are checked at every turn of the loop that may change something."""

    def __init__(self, arguments: dict[str, Any], random: Random) -> None:
        self.worker = InMemoryWorker(**arguments)
        self.random = random
        self.actors: dict[str, ActorScope] = {actor.name: actor for actor in arguments["actors"]}
        self.policies = set(arguments["limit_policies"])
        for actor in self.actors.values():
            self.policies.update([*actor.limit_policies, *actor.router.limit_policies])
        self.running: list[tuple[str, int]] = []

    def check(self) -> None:
        for usage in self.worker.flow.usage():
            assert usage.max_messages is None or usage.messages <= usage.max_messages
            assert usage.max_bytes is None or usage.bytes <= usage.max_bytes or usage.messages == 1
        for limits in {limits for actor in self.actors.values() for limits in actor.path}:
            inside = [size for name, size in self.running if limits in self.actors[name].path]
            assert len(inside) <= (limits.max_messages or len(inside))
            assert sum(inside) <= (limits.max_payload_bytes or sum(inside)) or len(inside) == 1
        for policy in self.policies:
            assert len(policy.running) <= (policy.capacity or len(policy.running))

    async def code(self, actor: str, size: int) -> None:
        self.running.append((actor, size))
        self.check()
        try:
            for _ in range(self.random.randrange(6)):
                await asyncio.sleep(0)
        finally:
            self.running.remove((actor, size))

    async def play(self, jobs: list[tuple[str, str, int]]) -> list[asyncio.Task[MessageRun]]:
        tasks: list[asyncio.Task[MessageRun]] = []
        for queue, actor, size in jobs:
            message = received(actor, queue=queue, payload_bytes=size)
            tasks.append(asyncio.create_task(self.worker.run(message, partial(self.code, actor, size))))
            for _ in range(self.random.randrange(4)):
                await asyncio.sleep(0)
            if self.random.random() < 0.3:
                self.random.choice(tasks).cancel()
            self.check()
        return tasks


async def run_and_cancel(arguments: dict[str, Any], jobs: list[tuple[str, str, int]], random: Random) -> None:
    whole = Whole(arguments, random)
    tasks = await whole.play(jobs)
    for _ in range(5_000):
        if all(task.done() for task in tasks):
            break
        await asyncio.sleep(0)
    await whole.worker.settle()
    assert [task for task in tasks if not task.done()] == []
    assert {task.exception() for task in tasks if not task.cancelled()} <= {None}
    assert all(usage.messages == usage.bytes == 0 for usage in whole.worker.flow.usage())
    assert whole.worker.flow.backpressure.waiting() == []
    for policy in whole.policies:
        assert policy.running == []
        assert sorted(policy.seen("granted")) == sorted(policy.seen("released"))
