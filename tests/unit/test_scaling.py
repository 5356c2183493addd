"""Scaling decisions, one look at a time: every rule of the plan with the look that it is for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tidegate_operator.reconcile.scaling import Plan, plan
from tidegate_operator.reconcile.scaling_memories import Memory
from tidegate_operator.reconcile.scaling_observations import (
    STUCK_AFTER,
    Blocker,
    Demand,
    Deployment,
    Mode,
    Observation,
    Pod,
    QueueWorkers,
    Worker,
)

MAIL = QueueWorkers("mail", "mail")
BUSY = {"mail": Demand(running=10, runnable=0)}


def pod(number: int, **parts: Any) -> Pod:
    return Pod(f"w{number}", **{"ready": True, "age": 1000.0 + number, "template": "v1", **parts})


def worker(number: int, jobs: int = 0, **parts: Any) -> Worker:
    return Worker(UUID(int=number), f"w{number}", **{"slots": 10, "jobs": jobs, **parts})


def scene(
    replicas: int,
    demand: Demand | None = None,
    *,
    jobs: dict[int, int] | None = None,
    draining: tuple[int, ...] = (),
    unready: tuple[int, ...] = (),
    starting: tuple[int, ...] = (),
    queue: QueueWorkers = MAIL,
    **parts: Any,
) -> Observation:
    """Pods 1 to ``replicas``, each with a worker that holds its ``jobs``; ``starting`` ones have none yet."""
    pods = [
        pod(n, ready=n not in unready + starting, age=3.0 if n in starting else 1000.0 + n)
        for n in range(1, replicas + 1)
    ]
    workers = [
        worker(n, (jobs or {}).get(n, 0), draining=n in draining) for n in range(1, replicas + 1) if n not in starting
    ]
    seen = Observation(
        (queue,), Deployment("mail-workers", replicas, "7", tuple(pods)), {"mail": demand or Demand()}, tuple(workers)
    )
    return replace(seen, **parts)


def settled(replicas: int) -> Memory:
    """The memory of a Deployment that has had these replicas for long, and work until an hour ago."""
    return Memory(recommendations=((0.0, 0),), busy_at=-3600.0, seen=replicas)


def limited(made: Plan) -> tuple[str, str]:
    return made.findings[1].status, made.findings[1].reason


@pytest.mark.parametrize(
    ("replicas", "demand", "wanted"),
    [
        (0, Demand(runnable=1), 1),
        (0, Demand(runnable=10), 1),
        (0, Demand(runnable=11), 2),
        (0, Demand(runnable=40), 4),
        (1, Demand(running=10, runnable=1), 2),
        (2, Demand(running=12, runnable=8), None),
        (0, Demand(blocked=10_000), None),
        (1, Demand(running=4, blocked=10_000), None),
        (0, Demand(runnable=3, blocked=10_000), 1),
    ],
)
def test_workers_are_those_that_runnable_jobs_fill_at_once(replicas: int, demand: Demand, wanted: int | None) -> None:
    made = plan(scene(replicas, demand), Memory(), 0.0)
    assert made.replicas == wanted
    assert (made.version, made.drain) == ("7", ())


def test_the_target_plans_for_a_part_of_the_slots_and_workers_report_their_own() -> None:
    half = replace(MAIL, target=50)
    assert plan(scene(0, Demand(runnable=10), queue=half), Memory(), 0.0).replicas == 2
    seen = scene(1, Demand(running=4, runnable=4))
    assert plan(replace(seen, workers=(worker(1, 4, slots=2),)), Memory(), 0.0).replicas == 4


def test_the_sentence_says_why() -> None:
    demand = Demand(running=2, runnable=12, blocked=480, blockers=(Blocker("vendor-x", 480, "MaxRunning"),))
    made = plan(scene(1, demand, jobs={1: 2}), Memory(), 0.0)
    assert made.findings[0].message == ("2 running, 12 runnable, 480 blocked by vendor-x (MaxRunning), 1 -> 2 workers")
    assert (made.findings[0].status, made.findings[0].reason) == ("True", "ByDemand")


def test_growth_at_most_doubles_or_adds_four_within_fifteen_seconds_and_starting_pods_count() -> None:
    queue = replace(MAIL, maximum=100)
    demand, memory, replicas = Demand(runnable=1000), Memory(), 0
    course, reasons = [], set()
    for second in range(0, 62, 2):
        seen = scene(replicas, demand, starting=tuple(range(1, replicas + 1)), queue=queue)
        made = plan(seen, memory, float(second))
        memory = made.memory
        reasons.add(limited(made))
        if made.replicas is not None:
            replicas = made.replicas
            course.append((second, replicas))
    assert course == [(0, 4), (16, 8), (32, 16), (48, 32)]
    assert reasons == {("True", "GrowthLimited")}


def test_fewer_only_when_the_whole_window_asked_for_fewer() -> None:
    memory = plan(scene(3, Demand(running=30), jobs={1: 10, 2: 10, 3: 10}), settled(3), 0.0).memory
    quiet = scene(3, Demand(running=1), jobs={1: 1})
    for second in (2.0, 60.0, 118.0):
        made = plan(quiet, memory, second)
        assert (made.drain, made.replicas, limited(made)) == ((), None, ("True", "ScaleDownWindow"))
        memory = made.memory
    made = plan(quiet, memory, 122.0)
    # the two without jobs, and of them the youngest first
    assert made.drain == (UUID(int=2), UUID(int=3))
    assert made.replicas is None


def test_a_new_operator_takes_nobody_away_before_a_window_has_passed() -> None:
    quiet = scene(3, Demand(running=1), jobs={1: 1})
    first = plan(quiet, Memory(), 1000.0)
    assert (first.drain, first.replicas) == ((), None)
    assert plan(quiet, plan(quiet, first.memory, 1100.0).memory, 1121.0).drain != ()


def test_busy_workers_may_drain_and_those_with_least_go_first() -> None:
    made = plan(scene(3, Demand(running=6), jobs={1: 1, 2: 4, 3: 1}), settled(3), 500.0)
    assert set(made.drain) == {UUID(int=1), UUID(int=3)}
    assert made.replicas is None


def test_replicas_fall_only_by_pods_that_are_drained_empty_and_unready() -> None:
    demand = Demand(running=5)
    held = scene(3, demand, jobs={1: 4, 2: 1}, draining=(2, 3))
    assert plan(held, settled(3), 500.0).replicas is None
    empty_but_ready = scene(3, demand, jobs={1: 4, 2: 1}, draining=(2, 3), unready=())
    assert limited(plan(empty_but_ready, settled(3), 500.0)) == ("True", "Draining")
    one_quiet = scene(3, demand, jobs={1: 4, 2: 1}, draining=(2, 3), unready=(3,))
    made = plan(one_quiet, settled(3), 500.0)
    assert (made.replicas, made.drain) == (2, ())
    both = scene(3, Demand(running=4), jobs={1: 4}, draining=(2, 3), unready=(2, 3))
    assert plan(both, settled(3), 500.0).replicas == 1


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (scene(3, Demand(running=5), jobs={1: 4, 2: 1}, draining=(3,), unready=(2, 3)), "UnreadyPods"),
        (scene(3, Demand(running=4), jobs={1: 4}, draining=(3,), unready=(3,), starting=(2,)), "UnreadyPods"),
    ],
)
def test_no_step_down_while_an_unready_pod_holds_jobs_or_may_soon(seen: Observation, reason: str) -> None:
    made = plan(seen, settled(3), 500.0)
    assert (made.replicas, limited(made)) == (None, ("True", reason))


def test_no_step_down_while_the_last_one_is_under_way() -> None:
    seen = scene(3, Demand(running=4), jobs={1: 4}, draining=(2, 3), unready=(2, 3))
    assert seen.deployment is not None
    ending = replace(seen, deployment=replace(seen.deployment, replicas=2))
    assert (plan(ending, settled(2), 500.0).replicas, plan(ending, settled(2), 500.0).drain) == (None, ())


def test_replicas_without_a_pod_and_pods_that_never_started_go_first() -> None:
    seen = scene(2, Demand(running=12), jobs={1: 8, 2: 4})
    assert seen.deployment is not None
    without_pods = replace(seen, deployment=replace(seen.deployment, replicas=5))
    assert plan(without_pods, settled(5), 500.0).replicas == 2
    stuck = Pod("w3", ready=False, age=STUCK_AFTER, unready=STUCK_AFTER, template="v1")
    crashing = replace(seen, deployment=replace(seen.deployment, replicas=3, pods=(*seen.deployment.pods, stuck)))
    made = plan(crashing, settled(3), 500.0)
    assert (made.replicas, made.drain) == (2, ())


def test_an_old_pod_that_is_unready_for_a_moment_is_not_stuck() -> None:
    """Its worker is between two starts: the step down would end a pod that is about to work."""
    seen = scene(2, Demand(running=12), jobs={1: 8, 2: 4})
    assert seen.deployment is not None
    restarting = Pod("w3", ready=False, age=10 * STUCK_AFTER, unready=STUCK_AFTER - 1, template="v1")
    three = replace(seen.deployment, replicas=3, pods=(*seen.deployment.pods, restarting))
    made = plan(replace(seen, deployment=three), settled(3), 500.0)
    assert made.replicas is None
    assert made.drain


def test_ready_pods_without_a_worker_are_said_to_be_unknown() -> None:
    seen = replace(scene(3), workers=())
    made = plan(seen, settled(3), 500.0)
    assert (made.replicas, made.drain, limited(made)) == (None, (), ("True", "PodsWithoutWorker"))
    assert "TIDEGATE_POD" in made.findings[1].message


def test_a_pod_with_two_workers_drains_as_a_whole() -> None:
    seen = scene(2, Demand(running=3), jobs={1: 3})
    second = Worker(UUID(int=22), "w2", 10, 0)
    made = plan(replace(seen, workers=(*seen.workers, second)), settled(2), 500.0)
    assert set(made.drain) == {UUID(int=2), UUID(int=22)}
    half = replace(seen, workers=(worker(1, 3), worker(2, draining=True), second))
    assert plan(half, settled(2), 500.0).drain == (UUID(int=22),)


def test_the_last_worker_stays_for_the_idle_grace() -> None:
    memory = replace(settled(1), busy_at=300.0)
    made = plan(scene(1), memory, 599.0)
    assert (made.drain, limited(made)) == ((), ("True", "IdleGrace"))
    assert plan(scene(1), made.memory, 601.0).drain == (UUID(int=1),)
    assert plan(scene(1, queue=replace(MAIL, minimum=1)), memory, 9999.0).drain == ()


def test_what_leaving_workers_finish_asks_for_nobody() -> None:
    made = plan(scene(3, Demand(running=9), jobs={1: 1, 2: 4, 3: 4}, draining=(2, 3)), settled(3), 500.0)
    assert (made.desired, made.replicas, made.draining) == (1, None, 2)


def test_leaving_workers_are_replaced_at_once_and_never_beyond_the_maximum() -> None:
    demand = Demand(running=12, runnable=20)
    made = plan(scene(3, demand, jobs={1: 10, 2: 2}, draining=(2, 3)), settled(3), 500.0)
    assert made.replicas == 5
    capped = replace(MAIL, maximum=3)
    made = plan(scene(3, demand, jobs={1: 10, 2: 2}, draining=(2, 3), unready=(3,), queue=capped), settled(3), 500.0)
    # no more pods are allowed: the one that is free to go makes room
    assert made.replicas == 2


def test_a_smaller_maximum_holds_at_once() -> None:
    seen = scene(3, Demand(running=24), jobs={1: 8, 2: 8, 3: 8}, queue=replace(MAIL, maximum=2))
    made = plan(seen, settled(3), 500.0)
    assert (made.drain, limited(made)) == ((UUID(int=1),), ("True", "Draining"))


def test_a_rollout_stops_steps_down_and_not_up() -> None:
    seen = scene(3, Demand(running=4), jobs={1: 4}, draining=(3,), unready=(3,))
    assert seen.deployment is not None
    pods = (*seen.deployment.pods[:2], replace(seen.deployment.pods[2], template="v2"))
    rolling = replace(seen, deployment=replace(seen.deployment, pods=pods))
    made = plan(rolling, settled(3), 500.0)
    assert (made.replicas, made.drain, limited(made)) == (None, (), ("True", "RolloutInProgress"))
    assert plan(replace(rolling, demands={"mail": Demand(runnable=60)}), settled(3), 500.0).replicas == 7


def test_by_hand_both_ways_and_beyond_the_bounds_of_auto() -> None:
    by_hand = replace(MAIL, mode=Mode.MANUAL, replicas=30)
    assert plan(scene(1, queue=by_hand), Memory(), 0.0).replicas == 30
    made = plan(scene(3, Demand(running=8), jobs={1: 8}, queue=replace(by_hand, replicas=1)), Memory(), 0.0)
    assert (set(made.drain), made.replicas) == ({UUID(int=2), UUID(int=3)}, None)
    assert made.findings[0].reason == "ByHand"


REFUSED = {
    "ScalingOff": scene(1, queue=replace(MAIL, mode=Mode.OFF)),
    "ManualWithoutReplicas": scene(1, queue=replace(MAIL, mode=Mode.MANUAL)),
    "DeploymentNotFound": replace(scene(1), deployment=None),
    "DatabaseUnavailable": replace(scene(1), demands=None),
    "DeploymentShared": replace(scene(1), queues=(MAIL, QueueWorkers("bulk", "bulk", maximum=3))),
    "OtherAutoscaler": replace(scene(1), deployment=Deployment("w", 1, "7", (pod(1),), ("keda-hpa-mail",))),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_cannot_or_must_not_be_scaled_is_left_alone_and_says_so(reason: str) -> None:
    seen = replace(REFUSED[reason], demands=REFUSED[reason].demands and {"mail": Demand(runnable=500)})
    made = plan(seen, settled(1), 500.0)
    assert (made.replicas, made.drain, made.desired) == (None, (), None)
    assert [(each.status, each.reason) for each in made.findings] == [("False", reason), ("False", "NotScaled")]


def test_queues_of_one_deployment_add_up_and_the_more_careful_wish_holds() -> None:
    bulk = QueueWorkers("bulk", "bulk", slots=5, window=600.0)
    seen = replace(scene(0), queues=(MAIL, bulk), demands={"mail": Demand(runnable=7), "bulk": Demand(runnable=6)})
    assert plan(seen, Memory(), 0.0).replicas == 3


def test_after_an_outage_of_the_database_the_window_begins_anew() -> None:
    quiet = scene(3, Demand(running=1), jobs={1: 1})
    blind = plan(replace(quiet, demands=None), settled(3), 500.0)
    assert (blind.replicas, blind.drain) == (None, ())
    assert plan(quiet, blind.memory, 502.0).drain == ()


def test_one_change_by_somebody_else_is_taken_and_three_are_a_rival() -> None:
    memory, demand = Memory(), Demand(running=20, runnable=0)
    reasons = []
    for look, replicas in enumerate((2, 5, 5, 2, 2, 6)):
        made = plan(scene(replicas, demand, jobs={1: 10, 2: 10}), memory, look * 10.0)
        memory = made.memory
        reasons.append(made.findings[0].reason)
    assert reasons == ["ByDemand"] * 5 + ["OtherAutoscaler"]
    # quiet for five minutes: tried again
    assert plan(scene(6, demand, jobs={1: 10, 2: 10}), memory, 400.0).findings[0].reason == "ByDemand"


def test_our_own_steps_are_no_rival() -> None:
    memory, replicas = Memory(), 0
    for look in range(40):
        made = plan(scene(replicas, Demand(runnable=10 * look)), memory, look * 2.0)
        memory, replicas = made.memory, made.replicas or replicas
    assert replicas > 4
    assert memory.rivalries == ()
