"""Scaling over whole courses: clusters and queues with a fake clock, whatever arrives."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.scaling.autoscalers import Fixed, Hpa, Keda, Tidegate
from bench.scaling.traces import Job, Rule, Trace, random_trace
from bench.scaling.worlds import SLOTS, World
from tidegate_operator.reconcile.scaling import plan
from tidegate_operator.reconcile.scaling_memories import Memory
from tidegate_operator.reconcile.scaling_observations import (
    Demand,
    Deployment,
    Observation,
    Pod,
    QueueWorkers,
    Worker,
)

MAXIMUM = 8


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    """Any look at a Deployment, reasonable or not."""
    pods, workers = [], []
    for number in range(draw(st.integers(0, 6))):
        name = f"w{number}"
        ready, age = draw(st.booleans()), draw(st.sampled_from([1.0, 700.0]))
        unready = 0.0 if ready else draw(st.sampled_from([0.5, age]))
        pods.append(Pod(name, ready, age, unready, "v1", draw(st.integers(0, 5)) == 0))
        if draw(st.integers(0, 4)):
            jobs = draw(st.sampled_from([0, 0, 3, 10]))
            workers.append(Worker(UUID(int=number), name, 10, jobs, draw(st.booleans())))
    low = draw(st.integers(0, 3))
    queue = QueueWorkers("q", "q", minimum=low, maximum=draw(st.integers(max(1, low), 6)), window=10.0, idle_grace=10.0)
    demand = Demand(draw(st.integers(0, 80)), draw(st.integers(0, 80)), draw(st.integers(0, 80)))
    return Observation(
        (queue,), Deployment("d", draw(st.integers(0, 7)), "1", tuple(pods)), {"q": demand}, tuple(workers)
    )


@given(observations(), st.integers(0, 7), st.integers(0, 100))
def test_a_step_down_ends_only_quiet_pods_whatever_is_seen(seen: Observation, before: int, since: int) -> None:
    made = plan(seen, Memory(((0.0, before),), busy_at=0.0, seen=before), float(since))
    deployment, queue = seen.deployment, seen.queues[0]
    assert deployment is not None
    workers = {worker.pod: worker for worker in seen.workers}
    there = [pod for pod in deployment.pods if not pod.terminating]
    assert {worker.id for worker in seen.workers if worker.draining}.isdisjoint(made.drain)
    if made.replicas is None or made.replicas == deployment.replicas:
        return
    if made.replicas > deployment.replicas:
        assert made.replicas <= max(queue.maximum, queue.minimum)
        assert made.replicas <= max(2 * deployment.replicas, deployment.replicas + 4, queue.minimum)
        return
    # what a ReplicaSet ends: unready pods first, and which of them nobody can say
    ended = len(there) - made.replicas
    unready = [pod for pod in there if not pod.ready]
    assert ended <= len(unready)
    if ended > 0:
        assert all(pod.name not in workers or workers[pod.name].jobs == 0 for pod in unready)
        assert all(pod.age > 600 or (pod.name in workers and workers[pod.name].draining) for pod in unready)
    busy = sum(pod.name in workers and workers[pod.name].jobs > 0 for pod in there)
    assert made.replicas >= busy


@given(st.integers(0, 2**32))
def test_over_a_whole_course_no_busy_pod_ends_and_no_pod_starts_for_blocked_work(seed: int) -> None:
    trace = random_trace(300.0, seed)
    world = World(trace, replicas=0, maximum=MAXIMUM)
    world.run(Tidegate(MAXIMUM), most=2000.0)
    assert (world.busy_ended, world.jobs_cut, world.for_blocked) == (0, 0, 0)
    assert world.most_replicas <= MAXIMUM


EVEN = [Job(at / 2, 4.0) for at in range(3600)]
SWINGING = [Job(60.0 * minute, 3.0) for minute in range(30) for _ in range(60)]


@pytest.mark.parametrize("jobs", [EVEN, SWINGING], ids=["even", "60 jobs once a minute"])
def test_after_the_first_minutes_a_load_that_repeats_changes_nothing(jobs: list[Job]) -> None:
    world, scaler = World(Trace("repeating", jobs, {}), replicas=0, maximum=MAXIMUM), Tidegate(MAXIMUM)
    world.run(scaler, most=300.0)
    first = world.changes
    assert first > 0
    world.run(scaler, most=1790.0)
    assert world.changes == first


def test_from_zero_within_a_look_and_back_to_zero() -> None:
    world = World(Trace("one", [Job(100.0, 5.0)], {}), replicas=0, maximum=MAXIMUM)
    world.run(Tidegate(MAXIMUM), most=100.0)
    assert world.replicas == 0
    world.run(Tidegate(MAXIMUM), most=103.0)
    assert world.replicas == 1
    scaler = Tidegate(MAXIMUM)
    world.run(scaler, most=115.0)
    assert world.waits
    world.linger(scaler, until=500.0)
    assert (world.replicas, world.pods, world.busy_ended) == (0, [], 0)


@pytest.mark.parametrize("rival", [Keda(MAXIMUM), Hpa(MAXIMUM)])
def test_the_world_notices_what_other_formulas_do(rival: Keda) -> None:
    # the same measures, so that a zero of ours means something
    long_jobs = [Job(5.0 * n, 20.0 if n % 5 else 900.0) for n in range(100)]
    world = World(Trace("long", long_jobs, {}), replicas=4, maximum=MAXIMUM)
    world.run(rival, most=4000.0)
    assert world.busy_ended > 0


def test_the_world_keeps_the_limits_itself() -> None:
    jobs = [Job(0.0, 1.0, "k") for _ in range(200)]
    world = World(Trace("k", jobs, {"k": Rule(3, 30, 10.0)}), replicas=2, maximum=2)
    most = 0
    while world.now < 60:
        world.run(Fixed(), most=world.now + 0.5)
        most = max(most, world.running["k"])
    assert most == 3
    assert len(world.waits) <= 30 * 6 + 30
    assert SLOTS > 3
