"""Leases: custom policies and pools of one message, whatever is cancelled and whatever fails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tidegate.errors import PolicyFailed
from tidegate.flow.executions import Lease
from tidegate.flow.intakes import Hold
from tidegate.flow.policies import OnWait
from tidegate.flow.refusals import Refusal
from tidegate.flow.scopes import ActorScope, ChannelScope, RouterScope
from tidegate.model.capacity import ActorLimits, BackpressurePolicy, MessageLimits
from tidegate.model.messages import ReceivedMessage, ReceivedMessageT
from tidegate.routing.actors import ActorData
from tidegate.testing import InMemoryWorker, RecordingPolicy, in_memory_actor, received


def held(worker: InMemoryWorker, message: ReceivedMessage) -> Hold:
    ask = worker.flow.intake.ask(message.queue)
    assert ask is not None
    (taken,) = worker.flow.intake.take(ask, [message], None)
    assert not isinstance(taken, Refusal)
    return taken


def leased(worker: InMemoryWorker, actor: str = "a", **fields: Any) -> tuple[Lease, Hold]:
    message = received(actor, **fields)
    hold = held(worker, message)
    return worker.flow.execution.reserve(message, hold), hold


def is_idle(worker: InMemoryWorker) -> bool:
    return all(usage.messages == usage.bytes == 0 for usage in worker.flow.usage())


async def turns(number: int = 20) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


def bounded(number: int, **more: Any) -> ActorScope:
    return in_memory_actor("a", limits=ActorLimits(max_messages=number), **more)


async def test_a_lease_is_ready_at_once_where_nothing_is_in_the_way() -> None:
    worker = InMemoryWorker([bounded(1)], propagation="off")
    first, _ = leased(worker)
    second, _ = leased(worker)
    assert [first.is_ready, second.is_ready] == [True, False]
    await first.wait()
    first.release()
    assert [first.is_ready, second.is_ready] == [False, True]
    second.release()


async def test_leases_are_had_in_the_order_in_which_they_were_made() -> None:
    worker = InMemoryWorker([bounded(1)], propagation="off")
    leases = [leased(worker)[0] for _ in range(4)]
    order: list[int] = []

    async def run(number: int) -> None:
        async with leases[number]:
            order.append(number)

    # the tasks start backwards, the line stands since the leases were made
    await asyncio.gather(*(run(number) for number in reversed(range(4))))
    assert order == [0, 1, 2, 3]


async def test_what_is_released_before_it_is_had_is_never_had() -> None:
    policy = RecordingPolicy()
    worker = InMemoryWorker([in_memory_actor("a", limit_policies=(policy,)), in_memory_actor("b", channel="jobs")])
    for actor in ("a", "b"):
        lease, _ = leased(worker, actor)
        lease.release()
        lease.release()
        with pytest.raises(asyncio.CancelledError):
            await lease.wait()
    assert policy.events == []


async def test_release_from_elsewhere_ends_a_wait() -> None:
    policy = RecordingPolicy(1)
    worker = InMemoryWorker([bounded(1, limit_policies=(policy,))], propagation="off")
    (first, _), (in_policy, _), (in_pool, _) = leased(worker), leased(worker), leased(worker)
    await first.wait()
    waits = asyncio.create_task(in_policy.wait())
    await turns()
    in_policy.release()
    policy.capacity = 3
    waits_too = asyncio.create_task(in_pool.wait())
    await turns()
    in_pool.release()
    first.release()
    for task in (waits, waits_too):
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 20)
    await worker.settle()
    assert sorted(policy.seen("granted")) == sorted(policy.seen("released"))
    assert policy.running == []


class SlowPolicy(RecordingPolicy):
    """Takes several turns of the loop for everything."""

    async def reserve(self, message: ReceivedMessageT, actor: ActorData, on_wait: OnWait) -> Any:
        await turns(3)
        return await super().reserve(message, actor, on_wait)

    async def give_back(self, message: int) -> None:
        await turns(3)
        await super().give_back(message)


async def cancelled_at(step: int, cancels: int) -> bool:
    """Cancel a message at its n-th turn, while another one is in its way. True when it had come to its end by then."""
    policies = [SlowPolicy(1), RecordingPolicy(1), SlowPolicy(1)]
    router = RouterScope(limits=ActorLimits(max_messages=1), limit_policies=(policies[1],))
    worker = InMemoryWorker(
        [bounded(1, router=router, limit_policies=(policies[2],))],
        limit_policies=(policies[0],),
        propagation="off",
    )
    ran: list[str] = []

    async def code(name: str) -> None:
        await turns(4)
        ran.append(name)

    before = asyncio.create_task(worker.run(received("a"), lambda: code("before")))
    await turns(4)
    task = asyncio.create_task(worker.run(received("a"), lambda: code("cancelled")))
    for _ in range(step):
        await asyncio.sleep(0)
    ended = task.done()
    for _ in range(cancels):
        task.cancel()
        await asyncio.sleep(0)
    await asyncio.wait([task, before])
    assert task.cancelled() != ended or "cancelled" in ran
    # whatever was taken was given back once: the next one gets it all
    await asyncio.wait_for(worker.run(received("a"), lambda: code("after")), 5)
    await worker.settle()
    assert ran[0] == "before"
    assert ran[-1] == "after"
    for policy in policies:
        assert policy.running == []
        assert len(policy.seen("released")) == len(set(policy.seen("released")))
        assert sorted(policy.seen("released")) == sorted(policy.seen("granted"))
    assert is_idle(worker)
    assert worker.failures == []
    return ended


@pytest.mark.parametrize("cancels", [1, 2])
async def test_cancelling_at_any_suspension_point_loses_no_lease(cancels: int) -> None:
    for step in range(1000):
        if await cancelled_at(step, cancels):
            break
    else:
        pytest.fail("the message never came to its end")
    assert step > 15


async def test_a_grant_and_a_cancellation_in_the_same_turn_lose_nothing() -> None:
    worker = InMemoryWorker([bounded(1)], propagation="off")
    first, _ = leased(worker)
    second, _ = leased(worker)
    third, _ = leased(worker)
    waits = asyncio.create_task(second.wait())
    await turns()
    first.release()
    assert second.is_ready
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    assert third.is_ready
    waits = asyncio.create_task(leased(worker)[0].wait())
    await turns()
    waits.cancel()
    third.release()
    with pytest.raises(asyncio.CancelledError):
        await waits
    assert leased(worker)[0].is_ready


async def test_the_same_policy_at_every_scope_is_reserved_once() -> None:
    policy = RecordingPolicy(100)
    scoped = (policy,)
    worker = InMemoryWorker(
        [in_memory_actor("a", router=RouterScope(limit_policies=scoped), limit_policies=scoped)],
        channels=[ChannelScope(address="jobs", limit_policies=scoped)],
        limit_policies=scoped,
    )
    leases = [leased(worker)[0] for _ in range(100)]
    for lease in leases:
        await lease.wait()
    assert len(policy.running) == 100
    last, _ = leased(worker)
    waits = asyncio.create_task(last.wait())
    await turns()
    assert not waits.done()
    leases[0].release()
    await waits


async def test_distinct_policies_are_each_reserved() -> None:
    policies = [RecordingPolicy() for _ in range(4)]
    worker = InMemoryWorker(
        [in_memory_actor("a", router=RouterScope(limit_policies=(policies[2],)), limit_policies=(policies[3],))],
        channels=[ChannelScope(address="jobs", limit_policies=(policies[1],))],
        limit_policies=(policies[0],),
    )
    lease, _ = leased(worker)
    await lease.wait()
    assert all(len(policy.running) == 1 for policy in policies)
    lease.release()
    await worker.settle()
    assert not any(policy.running for policy in policies)


async def test_pools_are_taken_after_the_policies() -> None:
    policy = RecordingPolicy(1)
    worker = InMemoryWorker([bounded(1, limit_policies=(policy,)), in_memory_actor("b", channel="jobs")])
    first, _ = leased(worker)
    await first.wait()
    assert [usage.messages for usage in worker.flow.usage() if usage.name == "actor 'a'"] == [1]
    first.release()
    await worker.settle()


FAILURES: list[BaseException] = [ValueError("secret"), asyncio.CancelledError(), SystemExit(3), KeyboardInterrupt()]


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
async def test_a_policy_that_raises_ends_intake_and_holds_nothing(error: BaseException) -> None:
    good, bad = RecordingPolicy(), RecordingPolicy(fail_reserve=error)
    worker = InMemoryWorker([bounded(1, limit_policies=(bad,))], limit_policies=(good,))
    lease, hold = leased(worker)
    with pytest.raises(PolicyFailed, match=r"limit policy RecordingPolicy failed in reserve\(\)") as raised:
        await lease.wait()
    assert raised.value.__cause__ is error
    assert "secret" not in str(raised.value)
    hold.release()
    await worker.settle()
    assert good.running == []
    assert is_idle(worker)
    assert worker.failures == [raised.value] == [worker.flow.failure]
    assert worker.flow.intake.ask("jobs") is None
    worker.flow.resume()
    assert worker.flow.intake.ask("jobs") is None


class Strange:
    """Answers with something that no lease is."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    async def reserve(self, *_: object) -> Any:
        return self.answer


class Hasty:
    """Is not async."""

    def reserve(self, *_: object) -> Any:
        return self


@pytest.mark.parametrize("policy", [Strange(None), Strange(object()), Hasty()])
async def test_a_policy_that_returns_no_lease_has_failed(policy: Any) -> None:
    worker = InMemoryWorker([in_memory_actor("a", limit_policies=(policy,))])
    lease, _ = leased(worker)
    with pytest.raises(PolicyFailed, match=r"failed in reserve\(\)"):
        await lease.wait()
    assert worker.flow.intake.ask("jobs") is None


async def test_a_lease_that_fails_to_release_ends_intake_and_the_others_are_released() -> None:
    good, bad, also_good = RecordingPolicy(), RecordingPolicy(fail_release=OSError()), RecordingPolicy()
    worker = InMemoryWorker([bounded(1, limit_policies=(also_good,))], limit_policies=(good, bad))
    lease, _ = leased(worker)
    await lease.wait()
    lease.release()
    await worker.settle()
    assert [str(failure.phase) for failure in worker.failures] == ["release"]
    assert good.running == also_good.running == []
    assert worker.flow.intake.ask("jobs") is None


async def test_what_is_held_goes_on_after_a_failure_and_the_first_failure_counts() -> None:
    policy = RecordingPolicy()
    worker = InMemoryWorker([in_memory_actor("a", limit_policies=(policy,))])
    before, _ = leased(worker)
    await before.wait()
    queued = [leased(worker)[0] for _ in range(2)]
    policy.fail_reserve = ValueError()
    for lease in queued:
        with pytest.raises(PolicyFailed):
            await lease.wait()
    assert len(worker.failures) == 1
    before.release()
    await worker.settle()
    assert policy.running == []


class Deaf:
    """Keeps cancellations to itself."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.released = 0

    async def reserve(self, *_: object) -> Any:
        self.entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return self

    async def release(self) -> None:
        self.released += 1


async def test_a_policy_that_swallows_a_cancellation_does_not_start_the_message() -> None:
    policy = Deaf()
    worker = InMemoryWorker([in_memory_actor("a", limit_policies=(policy,))])
    ran: list[int] = []

    async def code() -> None:
        ran.append(1)

    task = asyncio.create_task(worker.run(received("a"), code))
    await policy.entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await worker.settle()
    assert (ran, policy.released, worker.failures) == ([], 1, [])


async def test_a_policy_that_hangs_keeps_nobody_else_and_can_be_cancelled() -> None:
    policy = Deaf()
    worker = InMemoryWorker([in_memory_actor("a", limit_policies=(policy,)), in_memory_actor("b")])
    lease, hold = leased(worker)
    hangs = asyncio.create_task(lease.wait())
    await policy.entered.wait()
    assert leased(worker, "b")[0].is_ready
    hangs.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hangs
    hold.release()


class Chatty(RecordingPolicy):
    """Says that it waits again and again, and once more when the wait is over."""

    async def reserve(self, message: ReceivedMessageT, actor: ActorData, on_wait: OnWait) -> Any:
        for _ in range(3):
            await on_wait()
        self.late = on_wait
        return await super().reserve(message, actor, on_wait)


async def test_on_wait_counts_once_and_not_after_the_wait() -> None:
    policy = Chatty(1)
    paused = BackpressurePolicy(strategies=("channel_pause",))
    worker = InMemoryWorker(
        [in_memory_actor("a", limit_policies=(policy,))], limits=MessageLimits(max_messages=10, backpressure=paused)
    )
    lease, _ = leased(worker)
    await lease.wait()
    assert [transition.paused for transition in worker.transitions] == [True, False]
    await policy.late()
    assert worker.flow.backpressure.waiting() == []
    assert worker.flow.intake.ask("jobs") is not None
    lease.release()
    await worker.settle()


async def test_an_oversized_message_runs_alone_in_the_pool_that_it_exceeds() -> None:
    router = RouterScope(limits=ActorLimits(max_messages=3, max_payload_bytes=1000))
    a = in_memory_actor("a", limits=ActorLimits(max_payload_bytes=10), router=router)
    worker = InMemoryWorker([a, in_memory_actor("b", router=router)], propagation="off")
    small, _ = leased(worker, payload_bytes=5)
    large, _ = leased(worker, payload_bytes=11)
    later, _ = leased(worker, payload_bytes=1)
    other, _ = leased(worker, "b", payload_bytes=500)
    assert (small.is_ready, large.is_ready, later.is_ready, other.is_ready) == (True, False, False, True)
    small.release()
    assert (large.is_ready, later.is_ready) == (True, False)
    large.release()
    assert later.is_ready
