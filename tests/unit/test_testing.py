"""What applications test with: the clock, the recording policy, the worker in memory."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tidegate import App, Channel, InvalidPayload, Router
from tidegate.errors import PolicyFailed
from tidegate.flow.scopes import ChannelScope
from tidegate.model.capacity import ActorLimits, MessageLimits
from tidegate.testing import FakeClock, InMemoryWorker, MessageRun, RecordingPolicy, in_memory_actor, received


async def nothing() -> None:
    return None


async def test_time_stands_still_until_it_is_moved() -> None:
    loop = asyncio.get_running_loop()
    done: list[str] = []

    async def sleep(name: str, seconds: float, times: int = 1) -> None:
        for _ in range(times):
            await asyncio.sleep(seconds)
            done.append(f"{name} {loop.time() - start:g}")

    async with FakeClock() as clock:
        start = loop.time()
        tasks = [asyncio.create_task(sleep("hour", 3600)), asyncio.create_task(sleep("ten", 10, times=3))]
        await clock.advance(0)
        assert done == []
        await clock.advance(25)
        assert done == ["ten 10", "ten 20"]
        assert clock.time() == start + 25
        await clock.advance(3600)
        assert done == ["ten 10", "ten 20", "ten 30", "hour 3600"]
        assert all(task.done() for task in tasks)


async def test_timeouts_follow_the_clock_and_end_with_it() -> None:
    async def limited() -> None:
        async with asyncio.timeout(30):
            await asyncio.Event().wait()

    async with FakeClock() as clock:
        task = asyncio.create_task(limited())
        await clock.advance(29.9)
        assert not task.done()
        await clock.advance(0.2)
        assert isinstance(task.exception(), TimeoutError)
    await asyncio.sleep(0.001)  # the loop's own time again: this ends by itself


async def test_a_message_passes_its_scopes() -> None:
    policy = RecordingPolicy()
    worker = InMemoryWorker([in_memory_actor("resize", limit_policies=(policy,))])
    message = received("resize", headers={"a": "b"})
    assert await worker.run(message, nothing) == MessageRun("ran")
    await worker.settle()
    assert [tuple(event) for event in policy.events] == [
        ("reserve", message.id),
        ("granted", message.id),
        ("released", message.id),
    ]


async def test_what_the_code_raises_comes_out_and_everything_is_given_back() -> None:
    policy = RecordingPolicy(1)
    worker = InMemoryWorker([in_memory_actor("resize", limits=ActorLimits(max_messages=1), limit_policies=(policy,))])

    async def fails() -> None:
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await worker.run(received("resize"), fails)
    assert await worker.run(received("resize"), nothing) == MessageRun("ran")


async def test_a_refused_message_never_runs() -> None:
    limits = MessageLimits(max_payload_bytes=5, on_oversized_payload="reject")
    worker = InMemoryWorker([in_memory_actor("resize")], channels=[ChannelScope(address="jobs", limits=limits)])

    async def never() -> None:
        pytest.fail("it ran")

    run = await worker.run(received("resize", payload_bytes=6), never)
    assert (run.outcome, run.scope) == ("reject", "channel 'jobs'")
    assert await worker.run(received("resize", payload_bytes=5), nothing) == MessageRun("ran")


async def test_the_policy_fails_where_it_is_told_to() -> None:
    for policy, phase in (
        (RecordingPolicy(fail_reserve=ValueError()), "reserve"),
        (RecordingPolicy(fail_release=ValueError()), "release"),
    ):
        worker = InMemoryWorker([in_memory_actor("resize", limit_policies=(policy,))])
        if phase == "reserve":
            with pytest.raises(PolicyFailed):
                await worker.run(received("resize"), nothing)
        else:
            await worker.run(received("resize"), nothing)
            await worker.settle()
        assert [failure.phase for failure in worker.failures] == [phase]
        with pytest.raises(PolicyFailed):
            await worker.run(received("resize"), nothing)


async def test_who_waits_outside_hears_of_a_failure() -> None:
    policy = RecordingPolicy()
    worker = InMemoryWorker([in_memory_actor("resize", limit_policies=(policy,))], limits=MessageLimits(max_messages=1))
    end = asyncio.Event()
    runs = [asyncio.create_task(worker.run(received("resize"), end.wait)) for _ in range(3)]
    for _ in range(10):
        await asyncio.sleep(0)
    policy.fail_reserve = ValueError()
    end.set()
    results = await asyncio.gather(*runs, return_exceptions=True)
    assert [isinstance(result, PolicyFailed) for result in results] == [False, True, True]


async def test_what_is_cancelled_outside_keeps_no_room_from_others() -> None:
    worker = InMemoryWorker(
        [in_memory_actor("resize"), in_memory_actor("mail")], limits=MessageLimits(max_payload_bytes=20)
    )
    end = asyncio.Event()
    runs = [
        asyncio.create_task(worker.run(received("resize", payload_bytes=10), end.wait)),
        asyncio.create_task(worker.run(received("resize", payload_bytes=20), end.wait)),
        asyncio.create_task(worker.run(received("mail", queue="mail", payload_bytes=5), nothing)),
    ]
    for _ in range(10):
        await asyncio.sleep(0)
    assert not runs[2].done()  # the 20 bytes came first, and need the room
    runs[1].cancel()
    assert (await runs[2]).outcome == "ran"
    end.set()
    await runs[0]


async def test_a_policy_of_some_capacity_makes_others_wait_and_says_so() -> None:
    policy = RecordingPolicy(1)
    worker = InMemoryWorker([in_memory_actor("resize", limit_policies=(policy,))])
    end = asyncio.Event()
    runs = [asyncio.create_task(worker.run(received("resize"), end.wait)) for _ in range(2)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(policy.running) == len(policy.seen("wait")) == 1
    runs[1].cancel()
    end.set()
    await asyncio.wait(runs)
    await worker.settle()
    assert len(policy.seen("cancelled")) == 1
    assert policy.running == []


async def test_an_apps_own_actors_are_run_with_their_scopes() -> None:
    policy = RecordingPolicy()
    limits = MessageLimits(max_payload_bytes=30, on_oversized_payload="nack")
    router = Router(limits=ActorLimits(max_messages=2), limit_policies=(policy,))
    app = App(routers=[router])
    seen: list[object] = []

    @router.actor(channel=Channel("jobs", limits=limits))
    async def resize(width: int, note: str = "") -> None:
        seen.append((width, note))

    @router.actor(channel="jobs")
    def rename(at: timedelta) -> None:
        seen.append(at)

    worker = InMemoryWorker.of(app)
    assert await worker.call(resize, width=3) == MessageRun("ran")
    assert await worker.call(rename, at=timedelta(seconds=2)) == MessageRun("ran")
    refused = await worker.call(resize, width=3, note="x" * 30)
    assert (refused.outcome, refused.scope) == ("nack", "channel 'jobs'")
    with pytest.raises(InvalidPayload, match="width"):
        await worker.call(resize, width="wide")
    await worker.settle()
    assert seen == [(3, ""), timedelta(seconds=2)]
    assert len(policy.seen("granted")) == len(policy.seen("released")) == 2
    assert {usage.name for usage in worker.flow.usage()} >= {"the worker", "channel 'jobs'"}
