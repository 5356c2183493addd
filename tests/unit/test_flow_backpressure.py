"""Backpressure: every strategy into a pause and out of it, each reason for itself."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from tidegate.errors import PolicyFailed
from tidegate.flow.backpressure import BY_HAND, Backpressure, Transition, Waiting
from tidegate.flow.plans import Plan
from tidegate.flow.pools import Pool
from tidegate.flow.scopes import ChannelScope, WorkerScope
from tidegate.model.capacity import ActorLimits, BackpressurePolicy, MessageLimits
from tidegate.testing import InMemoryWorker, RecordingPolicy, in_memory_actor, received


@dataclass
class Heard:
    rooms: list[str] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)
    failures: list[PolicyFailed] = field(default_factory=list)

    def room(self, queue: str) -> None:
        self.rooms.append(queue)

    def changed(self, transition: Transition) -> None:
        self.transitions.append(transition)

    def failed(self, failure: PolicyFailed) -> None:
        self.failures.append(failure)

    @property
    def pauses(self) -> list[bool]:
        return [transition.paused for transition in self.transitions]


class Setup:
    """Two channels of one pool, and a third that has its own policy."""

    def __init__(self, *strategies: Any, resume_at: float = 0.75) -> None:
        self.heard = Heard()
        self.backpressure = Backpressure(self.heard)
        policy = BackpressurePolicy(strategies=strategies, resume_at=resume_at)
        self.plan = Plan(WorkerScope(limits=MessageLimits(max_messages=10, backpressure=policy)), (), ())
        self.jobs, self.mail = self.plan.channel("jobs"), self.plan.channel("mail")
        self.pool = Pool("actor 'a'", 4, 100)
        self.policy = RecordingPolicy()
        self.message = received("a", payload_bytes=10)
        assert not self.closed

    @property
    def closed(self) -> list[str]:
        return [queue for queue in ("jobs", "mail") if self.backpressure.is_closed(queue)]

    def fill(self, messages: int, size: int = 1) -> None:
        for _ in range(messages):
            self.pool.take(size)

    def free(self, messages: int, size: int = 1) -> None:
        for _ in range(messages):
            self.pool.give(size)
            self.backpressure.freed([self.pool])


@pytest.mark.parametrize("strategies", [("native",), (), ("native", "channel_pause", "worker_pause")])
def test_native_and_buffer_pause_nothing_for_a_pool(strategies: Any) -> None:
    setup = Setup(*strategies)
    setup.fill(4)
    setup.backpressure.began(setup.jobs, setup.pool, setup.message)
    setup.backpressure.filled(setup.jobs, setup.pool, 1)
    assert (setup.closed, setup.heard.transitions) == ([], [])
    assert setup.backpressure.waiting() == [Waiting("jobs", "actor 'a'", 1)]
    setup.backpressure.ended(setup.jobs, setup.pool)
    assert setup.backpressure.waiting() == []


@pytest.mark.parametrize(
    ("strategy", "closed"),
    [("channel_pause", ["jobs"]), ("worker_pause", ["jobs", "mail"]), ("resubscribe", ["jobs", "mail"])],
)
def test_a_pause_ends_when_nobody_waits_and_use_has_fallen(strategy: Any, closed: list[str]) -> None:
    setup = Setup(strategy)
    setup.fill(4)
    setup.backpressure.began(setup.jobs, setup.pool, setup.message)
    setup.backpressure.began(setup.jobs, setup.pool, setup.message)
    assert setup.closed == closed
    assert setup.backpressure.reasons("jobs") == [f"{strategy}: messages of channel 'jobs' wait for actor 'a'"]
    setup.backpressure.ended(setup.jobs, setup.pool)
    setup.free(2)
    assert setup.closed == closed  # 50 percent in use, but one still waits
    setup.fill(2)
    setup.backpressure.ended(setup.jobs, setup.pool)
    assert setup.closed == closed  # nobody waits, but all is in use
    setup.free(1)
    assert setup.closed == []  # 3 of 4 is 75 percent
    gives_back = strategy == "resubscribe"
    assert setup.heard.transitions == [
        Transition(paused=True, strategy=strategy, channel="jobs", cause="actor 'a'", gives_back=gives_back),
        Transition(paused=False, strategy=strategy, channel="jobs", cause="actor 'a'"),
    ]
    assert sorted(setup.heard.rooms) == closed
    assert setup.backpressure.reasons("jobs") == []
    assert setup.backpressure.counts == {(strategy, "jobs"): 1}


@pytest.mark.parametrize(("resume_at", "left"), [(0, 0), (0.25, 1), (0.5, 2), (0.74, 2), (0.75, 3), (1, 4)])
def test_intake_goes_on_at_the_share_and_not_before(resume_at: float, left: int) -> None:
    setup = Setup("channel_pause", resume_at=resume_at)
    setup.fill(4)
    setup.backpressure.began(setup.jobs, setup.pool, setup.message)
    setup.backpressure.ended(setup.jobs, setup.pool)
    for in_use in range(4, left, -1):
        assert setup.pool.messages == in_use
        assert setup.closed == ["jobs"]
        setup.free(1)
    assert setup.closed == []


def test_the_greater_share_counts() -> None:
    setup = Setup("channel_pause", resume_at=0.5)
    setup.fill(2, size=45)
    setup.backpressure.began(setup.jobs, setup.pool, setup.message)
    setup.backpressure.ended(setup.jobs, setup.pool)
    assert setup.closed == ["jobs"]  # half of the messages, 90 percent of the bytes
    setup.free(1, size=45)
    assert setup.closed == []


def test_each_channel_waits_for_itself() -> None:
    setup = Setup("channel_pause")
    setup.fill(4)
    setup.backpressure.began(setup.jobs, setup.pool, setup.message)
    setup.backpressure.began(setup.mail, setup.pool, setup.message)
    assert setup.closed == ["jobs", "mail"]
    setup.free(2)
    setup.backpressure.ended(setup.jobs, setup.pool)
    assert setup.closed == ["mail"]
    setup.backpressure.ended(setup.mail, setup.pool)
    assert setup.closed == []


def test_two_causes_of_a_channel_end_one_by_one() -> None:
    setup = Setup("worker_pause")
    setup.backpressure.began(setup.jobs, setup.pool, setup.message)
    setup.backpressure.began(setup.jobs, setup.policy, setup.message)
    setup.backpressure.ended(setup.jobs, setup.pool)
    assert (setup.closed, setup.heard.rooms) == (["jobs", "mail"], [])
    setup.backpressure.ended(setup.jobs, setup.policy)
    assert setup.closed == []
    assert set(setup.heard.rooms) == {"jobs", "mail"}


def test_native_cannot_wait_on_a_policy_so_the_next_strategy_does() -> None:
    setup = Setup("native", "channel_pause", "worker_pause")
    setup.backpressure.began(setup.jobs, setup.policy, setup.message)
    assert setup.closed == ["jobs"]
    assert setup.heard.transitions[0].cause == "limit policy RecordingPolicy"
    setup.backpressure.ended(setup.jobs, setup.policy)
    assert setup.closed == []


def test_a_full_intake_gives_nothing_back_that_would_only_come_again() -> None:
    setup = Setup("resubscribe")
    setup.fill(4)
    setup.backpressure.filled(setup.jobs, setup.pool, 1)
    assert setup.heard.transitions == [
        Transition(paused=True, strategy="resubscribe", channel="jobs", cause="actor 'a'", gives_back=False)
    ]


def test_after_resubscribe_what_went_back_must_fit() -> None:
    setup = Setup("resubscribe", resume_at=1)
    setup.fill(1, size=95)
    setup.backpressure.began(setup.jobs, setup.pool, setup.message)
    assert setup.heard.transitions[0].keep is None
    setup.backpressure.ended(setup.jobs, setup.pool)  # it went back
    assert setup.closed == ["jobs", "mail"]  # else it would come again, and go back again
    setup.free(1, size=95)
    assert setup.closed == []


def test_who_waits_in_a_policy_stays_when_the_others_go_back() -> None:
    setup = Setup("resubscribe")
    setup.backpressure.began(setup.jobs, setup.policy, setup.message)
    assert setup.heard.transitions[0].keep is setup.message
    setup.backpressure.began(setup.jobs, setup.policy, received("a"))
    setup.backpressure.ended(setup.jobs, setup.policy)
    assert setup.closed == ["jobs", "mail"]
    setup.backpressure.ended(setup.jobs, setup.policy)
    assert setup.closed == []


def test_a_pause_by_hand_and_backpressure_never_clear_each_other() -> None:
    setup = Setup("channel_pause")
    setup.backpressure.pause()
    setup.backpressure.pause()
    assert setup.closed == ["jobs", "mail"]
    setup.backpressure.began(setup.jobs, setup.policy, setup.message)
    assert setup.backpressure.reasons("jobs")[0] == BY_HAND
    assert len(setup.backpressure.reasons("jobs")) == 2
    assert setup.backpressure.reasons("mail") == [BY_HAND]
    setup.backpressure.ended(setup.jobs, setup.policy)
    assert (setup.closed, setup.heard.rooms) == (["jobs", "mail"], [])
    setup.backpressure.began(setup.jobs, setup.policy, setup.message)
    setup.backpressure.resume()
    assert (setup.closed, setup.heard.rooms) == (["jobs"], ["mail"])
    setup.backpressure.resume()
    assert setup.heard.rooms == ["mail"]
    setup.backpressure.ended(setup.jobs, setup.policy)
    assert setup.closed == []


def test_a_failure_stays_for_ever_and_is_told_once() -> None:
    setup = Setup("channel_pause")
    failure = PolicyFailed("P", "reserve")
    setup.backpressure.fail(failure)
    setup.backpressure.fail(PolicyFailed("Q", "release"))
    setup.backpressure.pause()
    setup.backpressure.resume()
    assert setup.closed == ["jobs", "mail"]
    assert (setup.heard.failures, setup.heard.rooms) == ([failure], [])
    assert setup.backpressure.reasons("jobs") == [str(failure)]


def test_the_policy_of_the_channel_goes_before_the_workers() -> None:
    heard = Heard()
    backpressure = Backpressure(heard)
    own = MessageLimits(backpressure=BackpressurePolicy(strategies=("channel_pause",)))
    workers = MessageLimits(max_messages=10, backpressure=BackpressurePolicy(strategies=("worker_pause",)))
    plan = Plan(WorkerScope(limits=workers), [ChannelScope(address="own", limits=own)], ())
    pool, message = Pool("p", 1, None), received("a")
    for queue, closed in (("own", [True, False]), ("other", [True, True])):
        backpressure.began(plan.channel(queue), pool, message)
        assert [backpressure.is_closed(each) for each in (queue, "third")] == closed
        backpressure.ended(plan.channel(queue), pool)
        assert not backpressure.is_closed(queue)


@pytest.mark.parametrize("strategy", ["channel_pause", "worker_pause", "resubscribe"])
@pytest.mark.parametrize("waits_on", ["pool", "policy"])
async def test_messages_drive_a_worker_into_a_pause_and_out_of_it(strategy: Any, waits_on: str) -> None:
    policy = BackpressurePolicy(strategies=(strategy,), resume_at=0.5)
    custom = RecordingPolicy(2)
    actor = (
        in_memory_actor("a", limits=ActorLimits(max_messages=2))
        if waits_on == "pool"
        else in_memory_actor("a", limit_policies=(custom,))
    )
    worker = InMemoryWorker([actor], limits=MessageLimits(max_messages=100, backpressure=policy))
    ends: list[asyncio.Event] = []

    async def code() -> None:
        end = asyncio.Event()
        ends.append(end)
        await end.wait()

    async def settle() -> None:
        for _ in range(30):
            await asyncio.sleep(0)

    runs = [asyncio.create_task(worker.run(received("a"), code)) for _ in range(6)]
    await settle()
    intake = worker.flow.usage()[0]
    assert (intake.messages, len(ends)) == (3, 2)  # the third waited, and the others stayed out
    assert [transition.paused for transition in worker.transitions] == [True]
    while not all(run.done() for run in runs):
        assert ends, "nobody runs, and not everybody has run"
        ends.pop(0).set()
        await settle()
    assert [transition.paused for transition in worker.transitions].count(True) > 1
    assert not worker.transitions[-1].paused
    assert [transition.paused for transition in worker.transitions] == [True, False] * (len(worker.transitions) // 2)
    assert worker.flow.backpressure.waiting() == []
    assert all(run.result().outcome == "ran" for run in runs)
