"""Intake: what is asked of claims, what is held, and that nobody waits for a word that never comes."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.errors import PolicyFailed
from tidegate.flow.backpressure import Transition
from tidegate.flow.flows import Flow
from tidegate.flow.intakes import MOST_AT_ONCE, Ask, Hold
from tidegate.flow.refusals import Refusal
from tidegate.flow.scopes import ActorScope, ChannelScope, RouterScope, WorkerScope
from tidegate.model.capacity import ActorLimits, BackpressurePolicy, MessageLimits, OversizedPayloadAction
from tidegate.testing import in_memory_actor, received


class Job(NamedTuple):
    actor: str
    size: int


@dataclass
class Database:
    """Queues, and a flow that claims from them as a worker does: one claim at a time, each for a reason."""

    actors: tuple[ActorScope, ...]
    worker: MessageLimits
    channels: tuple[ChannelScope, ...] = ()
    propagation: Any = "on"
    queues: dict[str, deque[Job]] = field(default_factory=dict)
    due: dict[str, None] = field(default_factory=dict)
    held: list[Hold] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)
    claimed_at: dict[str, int] = field(default_factory=dict)
    claims: int = 0

    def __post_init__(self) -> None:
        self.flow = Flow(
            worker=WorkerScope(limits=self.worker),
            channels=self.channels,
            actors=self.actors,
            events=self,
            propagation=self.propagation,
        )

    def room(self, queue: str) -> None:
        self.due[queue] = None

    def changed(self, transition: Transition) -> None:
        self.transitions.append(transition)

    def failed(self, failure: PolicyFailed) -> None:
        raise failure

    def enqueue(self, queue: str, *jobs: Job) -> None:
        self.queues.setdefault(queue, deque()).extend(jobs)
        self.due[queue] = None

    def claim_all(self) -> None:
        """Claim until no queue is due; one that filled all slots stays due."""
        while self.due:
            queue = min(self.due, key=lambda due: self.claimed_at.get(due, 0))
            del self.due[queue]
            self.claim(queue)

    def claim(self, queue: str, *, hinted: bool = False) -> Ask | None:
        ask = self.flow.intake.ask(queue, hinted=hinted)
        if ask is None:
            return None
        self.claims += 1
        self.claimed_at[queue] = self.claims
        jobs, cut = self.select(ask)
        messages = [received(job.actor, queue=queue, payload_bytes=job.size) for job in jobs]
        if len(jobs) == ask.slots:
            self.due[queue] = None
        for taken in self.flow.intake.take(ask, messages, cut):
            if isinstance(taken, Refusal):
                self.refused.append(taken)
            else:
                self.held.append(taken)
        return ask

    def select(self, ask: Ask) -> tuple[list[Job], int | None]:
        """What SQL does: in order, past actors without room, up to the first job that does not fit the budget."""
        waiting = self.queues.get(ask.queue, deque())
        rooms = dict(zip(ask.actors, ask.rooms or [ask.slots] * len(ask.actors), strict=True))
        budget = ask.budget
        started: list[Job] = []
        cut = None
        for job in list(waiting):
            if len(started) == ask.slots:
                break
            if rooms.get(job.actor, 0) == 0:
                continue
            if budget is not None and job.size > budget:
                alone = ask.largest is None or job.size <= ask.largest
                refused = ask.refused_above is not None and job.size > ask.refused_above
                if not started and (alone or refused):
                    started = [job]
                else:
                    cut = job.size
                break
            rooms[job.actor] -= 1
            budget = None if budget is None else budget - job.size
            started.append(job)
        for job in started:
            waiting.remove(job)
        return started, cut

    def end(self, hold: Hold) -> None:
        self.held.remove(hold)
        hold.release()
        hold.release()

    def check(self) -> None:
        for plan, hold in ((hold.plan, hold) for hold in self.held):
            for pool in plan.pools:
                inside = [each.size for each in self.held if pool in each.plan.pools]
                assert (pool.messages, pool.bytes) == (len(inside), sum(inside)), hold
                assert pool.max_messages is None or pool.messages <= pool.max_messages
                assert pool.max_bytes is None or pool.bytes <= pool.max_bytes or pool.messages == 1


def test_a_claim_asks_for_what_is_free() -> None:
    database = Database(
        (in_memory_actor("a"), in_memory_actor("b")), MessageLimits(max_messages=5, max_payload_bytes=100)
    )
    assert database.claim("jobs") == Ask("jobs", 5, ("a", "b"), None, 100, None, None)
    database.enqueue("jobs", Job("a", 30), Job("b", 30))
    database.claim_all()
    assert database.flow.intake.ask("jobs") == Ask("jobs", 3, ("a", "b"), None, 40, 40, None)
    database.end(database.held[0])
    assert database.flow.intake.ask("jobs") == Ask("jobs", 4, ("a", "b"), None, 70, 70, None)


def test_without_limits_a_claim_is_bounded_all_the_same() -> None:
    database = Database((in_memory_actor("a"),), MessageLimits())
    assert database.claim("jobs") == Ask("jobs", MOST_AT_ONCE, ("a",), None, None, None, None)


def test_the_smallest_of_worker_channel_and_cap_bounds_intake() -> None:
    actor = in_memory_actor("a", limits=ActorLimits(max_messages=8, max_payload_bytes=50))
    channel = ChannelScope(address="jobs", limits=MessageLimits(max_messages=9, max_payload_bytes=40))
    ask = Database((actor,), MessageLimits(max_messages=10, max_payload_bytes=100), (channel,)).claim("jobs")
    assert ask is not None
    assert (ask.slots, ask.budget) == (8, 40)
    # what a channel counts is its own: the worker's pool is shared
    database = Database(
        (in_memory_actor("a"), in_memory_actor("b", channel="mail")), MessageLimits(max_messages=10), (channel,)
    )
    database.enqueue("mail", *[Job("b", 1)] * 3)
    database.claim_all()
    ask = database.claim("jobs")
    assert ask is not None
    assert ask.slots == 7


def test_rooms_count_what_waits_and_what_runs_of_every_queue() -> None:
    router = RouterScope(limits=ActorLimits(max_messages=6))
    a = in_memory_actor("a", limits=ActorLimits(max_messages=2), router=router)
    database = Database((a, in_memory_actor("b", router=router), in_memory_actor("c")), MessageLimits(max_messages=100))
    ask = database.claim("jobs")
    assert ask is not None
    assert ask.rooms == (2, 6, 100)
    database.enqueue("jobs", *[Job("a", 1)] * 5, Job("b", 1))
    database.enqueue("mail", Job("b", 1))
    database.claim_all()
    ask = database.claim("jobs")
    assert ask is not None
    assert (ask.actors, ask.rooms) == (("b", "c"), (2, 96))
    assert list(database.queues["jobs"]) == [Job("a", 1)] * 3
    database.end(next(hold for hold in database.held if hold.passage.actor is a))
    assert "jobs" in database.due


def test_no_rooms_are_asked_where_native_is_not_in_force() -> None:
    paused = MessageLimits(max_messages=7, backpressure=BackpressurePolicy(strategies=("channel_pause",)))
    actor = in_memory_actor("a", limits=ActorLimits(max_messages=2))
    for database in (Database((actor,), paused), Database((actor,), MessageLimits(max_messages=7), propagation="off")):
        database.enqueue("jobs", *[Job("a", 1)] * 9)
        database.claim_all()
        assert len(database.held) == 7


def test_an_oversized_job_comes_alone_when_the_pool_is_empty_and_nothing_comes_beside_it() -> None:
    database = Database((in_memory_actor("a"),), MessageLimits(max_payload_bytes=100))
    database.enqueue("jobs", Job("a", 60), Job("a", 500), Job("a", 10))
    database.claim_all()
    assert [hold.size for hold in database.held] == [60]
    database.end(database.held[0])
    database.claim_all()
    assert [hold.size for hold in database.held] == [500]
    assert database.flow.intake.ask("jobs") is None
    database.end(database.held[0])
    database.claim_all()
    assert [hold.size for hold in database.held] == [10]


def test_oversized_in_the_channel_alone_is_alone_in_the_channel() -> None:
    channel = ChannelScope(address="jobs", limits=MessageLimits(max_payload_bytes=10))
    database = Database(
        (in_memory_actor("a"), in_memory_actor("b", channel="mail")), MessageLimits(max_payload_bytes=100), (channel,)
    )
    database.enqueue("mail", Job("b", 70))
    database.enqueue("jobs", Job("a", 31))
    database.claim_all()
    assert [hold.size for hold in database.held] == [70]
    database.end(database.held[0])
    database.enqueue("mail", Job("b", 60))
    database.claim_all()
    assert sorted(hold.size for hold in database.held) == [31, 60]


def test_a_large_job_is_not_starved_by_small_ones_of_another_queue() -> None:
    database = Database(
        (in_memory_actor("a"), in_memory_actor("b", channel="mail")),
        MessageLimits(max_messages=50, max_payload_bytes=100),
    )
    database.enqueue("mail", *[Job("b", 10)] * 10)
    database.claim_all()
    database.enqueue("jobs", Job("a", 90))
    for _ in range(9):
        database.enqueue("mail", Job("b", 10))
        database.claim_all()
        database.end(database.held[0])
    database.claim_all()
    assert 90 in [hold.size for hold in database.held]
    database.end(next(hold for hold in database.held if hold.size == 90))
    database.claim_all()
    assert [hold.size for hold in database.held] == [10] * 10


def test_what_waits_for_its_own_channel_keeps_no_room_from_others() -> None:
    channel = ChannelScope(address="jobs", limits=MessageLimits(max_payload_bytes=50))
    database = Database(
        (in_memory_actor("a"), in_memory_actor("b", channel="mail")), MessageLimits(max_payload_bytes=100), (channel,)
    )
    database.enqueue("jobs", Job("a", 40), Job("a", 45))
    database.claim_all()
    database.enqueue("mail", Job("b", 60))
    database.claim_all()
    assert [hold.size for hold in database.held] == [40, 60]


def test_a_cut_is_forgotten_when_its_job_is_gone_and_others_hear_of_it() -> None:
    database = Database(
        (in_memory_actor("a"), in_memory_actor("b", channel="mail")), MessageLimits(max_payload_bytes=100)
    )
    database.enqueue("mail", Job("b", 50))
    database.claim_all()
    database.enqueue("jobs", Job("a", 90))
    database.claim_all()
    database.enqueue("mail", Job("b", 20))
    database.claim_all()
    assert [hold.size for hold in database.held] == [50]
    database.queues["jobs"].clear()  # another worker took it
    assert database.claim("jobs") is None
    assert database.claim("jobs", hinted=True) is not None
    assert database.due == {"mail": None}
    database.claim_all()
    assert [hold.size for hold in database.held] == [50, 20]


def test_a_paused_queue_keeps_no_room() -> None:
    paused = BackpressurePolicy(strategies=("channel_pause",))
    channel = ChannelScope(address="jobs", limits=MessageLimits(backpressure=paused))
    database = Database(
        (in_memory_actor("a"), in_memory_actor("b", channel="mail")), MessageLimits(max_payload_bytes=100), (channel,)
    )
    database.enqueue("mail", Job("b", 50))
    database.claim_all()
    database.enqueue("jobs", Job("a", 90))
    database.claim_all()
    assert [transition.paused for transition in database.transitions] == [True]
    database.enqueue("mail", Job("b", 20))
    database.claim_all()
    assert [hold.size for hold in database.held] == [50, 20]
    for hold in list(database.held):
        database.end(hold)
    assert [transition.paused for transition in database.transitions] == [True, False]
    database.claim_all()
    assert [hold.size for hold in database.held] == [90]


@pytest.mark.parametrize("action", ["nack", "reject"])
def test_a_refused_job_is_taken_at_once_and_never_held(action: OversizedPayloadAction) -> None:
    limits = MessageLimits(max_payload_bytes=100, on_oversized_payload=action)
    database = Database((in_memory_actor("a"),), limits)
    database.enqueue("jobs", Job("a", 99), Job("a", 101), Job("a", 500), Job("a", 1), Job("a", 2))
    database.claim_all()
    assert [refusal.action for refusal in database.refused] == [action] * 2
    assert [hold.size for hold in database.held] == [99, 1]
    database.check()
    database.end(database.held[0])
    database.claim_all()
    assert [hold.size for hold in database.held] == [1, 2]


def test_a_refusal_by_an_actor_comes_before_anything_is_reserved_for_it() -> None:
    limits = ActorLimits(max_payload_bytes=10, on_oversized_payload="nack")
    database = Database((in_memory_actor("a", limits=limits),), MessageLimits(max_payload_bytes=100))
    database.enqueue("jobs", Job("a", 11), Job("a", 10))
    database.claim_all()
    assert [refusal.scope for refusal in database.refused] == ["actor 'a'"]
    assert [hold.size for hold in database.held] == [10]


def test_at_full_a_pausing_channel_waits_until_its_use_has_fallen() -> None:
    policy = BackpressurePolicy(strategies=("channel_pause",), resume_at=0.75)
    database = Database((in_memory_actor("a"),), MessageLimits(max_messages=1000, backpressure=policy))
    database.enqueue("jobs", *[Job("a", 1)] * 1200)
    database.claim_all()
    assert len(database.held) == 1000
    assert [transition.paused for transition in database.transitions] == [True]
    for _ in range(249):
        database.end(database.held[0])
        database.claim_all()
    assert len(database.held) == 751
    database.end(database.held[0])
    assert [transition.paused for transition in database.transitions] == [True, False]
    database.claim_all()
    assert len(database.held) == 950


def test_native_asks_for_every_slot_that_is_free() -> None:
    database = Database((in_memory_actor("a"),), MessageLimits(max_messages=10))
    database.enqueue("jobs", *[Job("a", 1)] * 12)
    database.claim_all()
    database.end(database.held[0])
    database.claim_all()
    assert (len(database.held), database.transitions) == (10, [])


def test_a_pause_by_hand_stops_every_queue_and_tells_them_when_it_is_over() -> None:
    database = Database((in_memory_actor("a"),), MessageLimits(max_messages=10))
    database.enqueue("jobs", Job("a", 1))
    database.flow.pause()
    database.claim_all()
    assert database.held == []
    database.flow.resume()
    assert database.due == {"jobs": None}
    database.claim_all()
    assert len(database.held) == 1


BUDGETS = st.sampled_from([None, 5, 10, 20])
COUNTS = st.sampled_from([None, 1, 2, 5])
ACTIONS: Any = st.sampled_from(["run_alone", "run_alone", "nack"])
STRATEGIES: Any = st.sampled_from([("native",), (), ("channel_pause",), ("worker_pause",)])


@st.composite
def databases(draw: st.DrawFn) -> Database:
    def message_limits() -> MessageLimits:
        policy = BackpressurePolicy(strategies=draw(STRATEGIES), resume_at=draw(st.sampled_from([0, 0.5, 0.75, 1])))
        return MessageLimits(
            max_messages=draw(COUNTS),
            max_payload_bytes=draw(BUDGETS),
            on_oversized_payload=draw(ACTIONS),
            backpressure=policy,
        )

    pools: list[Any] = [None] + [
        ActorLimits(max_messages=draw(COUNTS), max_payload_bytes=draw(BUDGETS)) for _ in range(3)
    ]
    routers = [RouterScope(limits=pools[0]), RouterScope(limits=pools[1])]
    actors = tuple(
        in_memory_actor(
            name,
            channel=draw(st.sampled_from(["q0", "q1", "q2"])),
            router=draw(st.sampled_from(routers)),
            limits=draw(st.sampled_from(pools)),
        )
        for name in "abc"
    )
    shared: list[Any] = [None, message_limits(), message_limits()]
    channels = tuple(ChannelScope(address=f"q{number}", limits=draw(st.sampled_from(shared))) for number in range(3))
    return Database(actors, message_limits(), channels, draw(st.sampled_from(["on", "off"])))


@given(
    databases(),
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from("abc"), st.sampled_from([1, 2, 5, 9, 10, 11, 20, 21, 30]))),
    st.randoms(use_true_random=False),
)
@settings(max_examples=100)
def test_budgets_hold_and_every_job_of_every_queue_is_taken_in_without_a_needless_claim(
    database: Database, jobs: list[tuple[int, str, int]], random: Random
) -> None:
    for queue, actor, size in jobs:
        database.enqueue(f"q{queue}", Job(actor, size))
        if random.random() < 0.5:
            database.claim_all()
            database.check()
        if database.held and random.random() < 0.5:
            database.end(random.choice(database.held))
            database.check()
    database.claim_all()
    while database.held:
        database.end(random.choice(database.held))
        database.claim_all()
        database.check()
    # Nothing is held, so nothing can be waited for: a queue that still has jobs was never told to ask again.
    assert not any(database.queues.values())
    assert all(usage.messages == usage.bytes == 0 for usage in database.flow.usage())
    assert database.claims <= 2 * (2 * len(jobs) + 1)


@given(st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=40), st.integers(1, 5), st.integers(1, 5))
@settings(max_examples=50)
def test_one_claim_never_brings_more_of_an_actor_than_it_has_room_for(order: list[str], a: int, b: int) -> None:
    database = Database(
        (
            in_memory_actor("a", limits=ActorLimits(max_messages=a)),
            in_memory_actor("b", limits=ActorLimits(max_messages=b)),
        ),
        MessageLimits(max_messages=1000),
    )
    database.enqueue("jobs", *(Job(actor, 1) for actor in order))
    database.claim_all()
    came = Counter(hold.passage.actor.name for hold in database.held)
    for actor, limit in (("a", a), ("b", b)):
        assert came[actor] == min(limit, order.count(actor))


def test_room_that_an_actor_gets_while_a_claim_is_on_its_way_is_told_after_it() -> None:
    database = Database((in_memory_actor("a", limits=ActorLimits(max_messages=2)),), MessageLimits(max_messages=10))
    database.enqueue("mail", Job("a", 1))
    database.claim_all()
    ask = database.flow.intake.ask("mail")
    assert ask is not None
    assert ask.rooms == (1,)
    database.held.pop().release()
    database.due.clear()
    database.held += [
        hold for hold in database.flow.intake.take(ask, [received("a", queue="mail")], None) if isinstance(hold, Hold)
    ]
    assert list(database.due) == ["mail"], "one of two runs, and the claim was not asked for the other"
