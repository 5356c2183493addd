"""What follows from the declared scopes, and which declarations contradict each other."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.errors import ConfigurationError, InvalidType
from tidegate.flow.plans import Plan
from tidegate.flow.policies import as_policies
from tidegate.flow.propagation import Propagation
from tidegate.flow.scopes import ActorScope, ChannelScope, RouterScope, WorkerScope, worker_limits
from tidegate.model.capacity import ActorLimits, BackpressurePolicy, MessageLimits
from tidegate.testing import RecordingPolicy, in_memory_actor


def planned(
    *actors: ActorScope,
    channels: tuple[ChannelScope, ...] = (),
    worker: WorkerScope | None = None,
    propagation: Propagation = "on",
) -> Plan:
    return Plan(worker or WorkerScope(limits=worker_limits()), channels, actors, propagation)


def bounds(plan: Plan, queue: str = "jobs") -> list[tuple[int | None, int | None]]:
    return [(pool.max_messages, pool.max_bytes) for pool in plan.channel(queue).pools]


def test_a_worker_takes_in_a_thousand_unless_it_is_told_otherwise() -> None:
    assert worker_limits().max_messages == 1000
    assert worker_limits(slots=8).max_messages == 8
    unlimited = MessageLimits()
    assert worker_limits(unlimited) is unlimited
    with pytest.raises(ConfigurationError, match="slots=8 is short for limits=MessageLimits"):
        worker_limits(MessageLimits(), slots=8)
    with pytest.raises(InvalidType, match=r"MessageLimits\(\) is no limit, None is not"):
        worker_limits(None)


def test_intake_has_the_pools_of_worker_and_channel_and_the_cap_of_its_actors() -> None:
    plan = planned(
        in_memory_actor("resize", limits=ActorLimits(max_messages=3)),
        in_memory_actor("index", limits=ActorLimits(max_messages=5)),
        in_memory_actor("other", channel="mail"),
        channels=(ChannelScope(address="jobs", limits=MessageLimits(max_messages=100, max_payload_bytes=7)),),
    )
    assert bounds(plan) == [(1000, None), (100, 7), (8, None)]
    assert bounds(plan, "mail") == [(1000, None)]
    assert bounds(plan, "undeclared") == [(1000, None)]
    assert [pool.name for pool in plan.channel("jobs").pools] == [
        "the worker",
        "channel 'jobs'",
        "the actors of channel 'jobs'",
    ]


@pytest.mark.parametrize("strategies", [(), ("channel_pause", "native"), ("worker_pause",), ("resubscribe",)])
def test_the_cap_of_actors_is_for_native_claims(strategies: Any) -> None:
    actor = in_memory_actor("resize", limits=ActorLimits(max_messages=3))
    worker = WorkerScope(limits=MessageLimits(max_messages=9, backpressure=BackpressurePolicy(strategies=strategies)))
    assert bounds(planned(actor, worker=worker)) == [(9, None)]
    assert not planned(actor, worker=worker).channel("jobs").asks_rooms
    assert bounds(planned(actor, propagation="off")) == [(1000, None)]
    assert planned(actor).channel("jobs").asks_rooms


def test_one_limits_object_is_one_pool_wherever_it_stands() -> None:
    shared = MessageLimits(max_messages=5)
    plan = planned(
        in_memory_actor("resize"),
        worker=WorkerScope(limits=shared),
        channels=(ChannelScope(address="jobs", limits=shared), ChannelScope(address="mail", limits=shared)),
    )
    (pool,) = plan.channel("jobs").pools
    assert plan.channel("mail").pools == (pool,)
    assert pool.name == "the worker, channel 'jobs', channel 'mail'"
    database, other = ActorLimits(max_messages=12), ActorLimits(max_messages=12)
    plan = planned(
        in_memory_actor("a", limits=database, router=RouterScope(limits=database)),
        in_memory_actor("b", limits=database),
        in_memory_actor("c", limits=other),
    )
    a, b, c = (plan.passage("jobs", name).way for name in "abc")
    assert a is b
    assert len(a.pools) == 1
    assert a.pools != c.pools


def test_an_actors_own_pool_comes_before_its_routers() -> None:
    router = RouterScope(limits=ActorLimits(max_messages=20))
    plan = planned(in_memory_actor("a", router=router, limits=ActorLimits(max_messages=4)))
    assert [pool.max_messages for pool in plan.passage("jobs", "a").way.pools] == [4, 20]


def test_a_channel_that_says_nothing_takes_what_another_of_its_address_says() -> None:
    limits = MessageLimits(max_messages=5)
    policy = RecordingPolicy()
    plan = planned(
        in_memory_actor("a"),
        channels=(
            ChannelScope(address="jobs"),
            ChannelScope(address="jobs", limits=limits),
            ChannelScope(address="jobs", limits=limits, limit_policies=(policy,)),
        ),
    )
    assert bounds(plan)[1] == (5, None)
    assert plan.passage("jobs", "a").policies == (policy,)


@pytest.mark.parametrize(
    ("field", "one", "other"),
    [
        ("limits", MessageLimits(max_messages=5), MessageLimits(max_messages=6)),
        ("limits", MessageLimits(max_messages=5), MessageLimits(max_messages=5)),
        ("limit_policies", (RecordingPolicy(),), (RecordingPolicy(),)),
    ],
)
def test_channels_of_one_address_must_not_contradict_each_other(field: str, one: Any, other: Any) -> None:
    given: list[dict[str, Any]] = [{field: one}, {field: other}]
    channels = tuple(ChannelScope(address="jobs", **each) for each in given)
    with pytest.raises(ConfigurationError, match=f"two channels for 'jobs' have different {field}") as raised:
        planned(in_memory_actor("a"), channels=channels)
    assert repr(one) in str(raised.value)
    assert repr(other) in str(raised.value)


def test_a_policy_counts_once_and_all_messages_take_policies_in_one_order() -> None:
    p, q, r = RecordingPolicy(), RecordingPolicy(), RecordingPolicy()
    plan = planned(
        in_memory_actor("a", router=RouterScope(limit_policies=(p,)), limit_policies=(q, r)),
        in_memory_actor("b", router=RouterScope(limit_policies=(q,)), limit_policies=(p, r)),
        worker=WorkerScope(limits=MessageLimits(), limit_policies=(r,)),
        channels=(ChannelScope(address="jobs", limit_policies=(r,)),),
    )
    # each holding what the other one waits for would be the end of both
    assert plan.passage("jobs", "a").policies == plan.passage("jobs", "b").policies == (r, p, q)


@pytest.mark.parametrize(
    ("strategies", "limits", "policies", "waits_for"),
    [
        (("native",), None, (RecordingPolicy(),), "limit policy RecordingPolicy of actor 'a'"),
        ((), ActorLimits(max_messages=1), (), "the limits of actor 'a'"),
        ((), None, (RecordingPolicy(),), "limit policy RecordingPolicy of actor 'a'"),
    ],
)
def test_unavailable_backpressure_is_refused_at_the_start(
    strategies: Any, limits: ActorLimits | None, policies: Any, waits_for: str
) -> None:
    demanded = BackpressurePolicy(strategies=strategies, on_unavailable="error")
    channels = (ChannelScope(address="jobs", limits=MessageLimits(backpressure=demanded)),)
    actor = in_memory_actor("a", limits=limits, limit_policies=policies)
    with pytest.raises(ConfigurationError, match=rf"channel 'jobs' demands backpressure.*{waits_for}"):
        planned(actor, channels=channels)
    planned(in_memory_actor("a"), channels=channels)
    buffer = BackpressurePolicy(strategies=strategies)
    planned(actor, channels=(ChannelScope(address="jobs", limits=MessageLimits(backpressure=buffer)),))
    paused = BackpressurePolicy(strategies=(*strategies, "channel_pause"), on_unavailable="error")
    planned(actor, channels=(ChannelScope(address="jobs", limits=MessageLimits(backpressure=paused)),))


def test_native_needs_something_that_bounds_claims() -> None:
    actor = in_memory_actor("a", limits=ActorLimits(max_messages=1))
    unlimited = WorkerScope(limits=MessageLimits())
    assert planned(actor, worker=unlimited).channel("jobs").on_pool == "native"
    assert planned(actor, worker=unlimited, propagation="off").channel("jobs").on_pool == "channel_pause"
    assert planned(actor, propagation="off").channel("jobs").on_pool == "native"


def test_a_channel_without_backpressure_takes_the_workers() -> None:
    own, workers = BackpressurePolicy(resume_at=0.1), BackpressurePolicy(resume_at=0.2)
    plan = planned(
        worker=WorkerScope(limits=MessageLimits(backpressure=workers)),
        channels=(
            ChannelScope(address="own", limits=MessageLimits(backpressure=own)),
            ChannelScope(address="none", limits=MessageLimits(max_messages=1)),
        ),
    )
    assert [plan.channel(queue).policy.resume_at for queue in ("own", "none", "other")] == [0.1, 0.2, 0.2]
    assert planned().channel("jobs").policy == BackpressurePolicy()


@pytest.mark.parametrize("value", [None, "policy", RecordingPolicy(), [object()], (RecordingPolicy,)])
def test_policies_of_a_scope_are_objects_with_reserve(value: object) -> None:
    with pytest.raises(TypeError, match=r"^limit_policies must"):
        as_policies(value, "limit_policies")


def test_policies_of_a_scope_are_kept_once() -> None:
    policy = RecordingPolicy()
    assert as_policies([policy, policy], "limit_policies") == (policy,)
