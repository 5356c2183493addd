"""How many workers a Deployment gets: `plan`, one pure function from what was seen to what to do.

The caller observes (`Observation`: Deployment and pods first, then the database), calls `plan(seen, memory, now)` every
two seconds, and carries the `Plan` out in this order:

1. mark ``plan.drain`` draining: ``tidegate.drain_worker(id)`` for each, under the leader's epoch;
2. where ``plan.replicas`` is not None, PATCH ``deployments/scale`` to it with ``metadata.resourceVersion`` set to
   ``plan.version``: on 409 the plan is dropped, and the next look makes another;
3. write ``plan.findings`` and the counts into the status of each Queue that names the Deployment;
4. keep ``plan.memory`` for the next call, also when a step failed.

The rules. Load is what runs plus what limits would let start (``queue_demand``), less what leaving workers finish;
workers = ceil(load / (slots x target)) within the bounds. Up at once, at most doubling or by 4 within 15 s, pods that
start counting as present; down to the highest recommendation of the window, through draining alone (`retreat`); to
none only after the idle grace. Blocked work never adds a pod. What cannot be seen changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from uuid import UUID

from tidegate_operator.reconcile.scaling_memories import GROWTH_PERIOD, Memory
from tidegate_operator.reconcile.scaling_observations import Crew, Demand, Deployment, Observation, crews
from tidegate_operator.reconcile.scaling_retreats import retreat
from tidegate_operator.reconcile.scaling_verdicts import (
    Finding,
    Refusal,
    Wish,
    active,
    agreed,
    demands_of,
    describe,
    inactive,
    limited,
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, and what to show.

    Args:
        memory: to hand to the next call.
        findings: conditions ``ScalingActive`` and ``ScalingLimited``.
        replicas: what to write to ``spec.replicas``; None writes nothing.
        version: ``resourceVersion`` that guards the write.
        drain: workers to mark draining.
        desired: workers that scaling asks for, None where it does not scale.
        draining: pods that are leaving.
        present, ready: pods that count as replicas; of them, those that are ready.
    """

    memory: Memory
    findings: tuple[Finding, ...]
    replicas: int | None = None
    version: str = ""
    drain: tuple[UUID, ...] = ()
    desired: int | None = None
    draining: int = 0
    present: int = 0
    ready: int = 0


@dataclass(frozen=True, slots=True)
class _Aim:
    """Workers wanted where there are fewer, and where there are more; bounds of replicas; why not just the load."""

    up: int
    down: int
    pace: int
    most: int
    why: str
    held: tuple[str, str] | None = None


def plan(seen: Observation, memory: Memory, now: float) -> Plan:
    """Decide about one Deployment.

    Args:
        seen: everything that was observed of it.
        memory: of the last plan; ``Memory()`` at the start and after a change of the leader.
        now: seconds on a monotonic clock.
    """
    deployment = seen.deployment
    if deployment is not None:
        memory = memory.looked(deployment.replicas, now)
    there = crews(deployment, seen.workers) if deployment is not None else []
    wish = agreed(seen, rivalled=memory.rivalled)
    draining, ready = sum(crew.leaving for crew in there), sum(crew.pod.ready for crew in there)
    if isinstance(wish, Refusal) or deployment is None or seen.demands is None:
        refusal = wish if isinstance(wish, Refusal) else Refusal("NothingSeen", "nothing was observed")
        return Plan(memory.forgetting(), inactive(refusal), draining=draining, present=len(there), ready=ready)
    # pods beyond the replicas are being ended, and those are leaving ones
    staying = max(0, deployment.replicas - max(0, draining - max(0, len(there) - deployment.replicas)))
    if wish.replicas is not None:
        memory = memory.forgetting()
        aim = _Aim(wish.replicas, wish.replicas, wish.replicas, wish.replicas, f"{wish.replicas} workers set by hand")
    else:
        demands = demands_of(seen, seen.demands)
        memory = _remembering(memory, wish, demands, there, staying=staying, now=now)
        aim = _by_demand(wish, demands, there, memory, staying=staying, now=now)
    replicas, drain, held = _step(aim, deployment, there, staying)
    desired = max(aim.up, min(staying, aim.down))
    change = f"{staying} -> {desired} workers" if desired != staying else f"{staying} workers"
    return Plan(
        memory=memory.planned(deployment.replicas, replicas, now),
        findings=(active(wish, f"{aim.why}, {change}"), limited(held)),
        replicas=replicas,
        version=deployment.version,
        drain=drain,
        desired=desired,
        draining=draining,
        present=len(there),
        ready=ready,
    )


def _wanted(wish: Wish, demands: list[Demand], there: list[Crew]) -> int:
    """Workers that the load would fill; what leaving workers hold they finish themselves."""
    running = sum(demand.running for demand in demands)
    load = running + sum(demand.runnable for demand in demands)
    load -= min(running, sum(crew.jobs for crew in there if crew.leaving))
    reported = [sum(worker.slots for worker in crew.workers) for crew in there if crew.workers and not crew.leaving]
    return ceil(load * 100 / (min(reported, default=wish.slots) * wish.target))


def _remembering(
    memory: Memory, wish: Wish, demands: list[Demand], there: list[Crew], *, staying: int, now: float
) -> Memory:
    wanted = _wanted(wish, demands, there)
    bounded = min(max(wanted, wish.minimum), wish.maximum)
    return memory.recommended(bounded, staying, now, wish.window).worked(wanted > 0, now)


def _by_demand(
    wish: Wish, demands: list[Demand], there: list[Crew], memory: Memory, *, staying: int, now: float
) -> _Aim:
    """``Auto``: from what runs, what limits would let start, and what was recommended within the window."""
    wanted = _wanted(wish, demands, there)
    up = min(max(wanted, wish.minimum), wish.maximum)
    down = min(max(memory.highest, wish.minimum), wish.maximum)
    held = None
    if wanted > wish.maximum:
        held = ("AtMaximum", f"the load would fill {wanted} workers; maxReplicas is {wish.maximum}")
    elif down == 0 < staying and memory.idle_for(now) < wish.idle_grace:
        down = 1
        held = ("IdleGrace", f"the last worker stays until {wish.idle_grace:g} s have passed without work")
    elif up < min(down, staying):
        held = ("ScaleDownWindow", f"{down} workers were asked for within the last {wish.window:g} s")
    elif wanted < wish.minimum:
        held = ("AtMinimum", f"the load would fill {wanted} workers; minReplicas is {wish.minimum}")
    pace = max(memory.most_replicas(now), wish.minimum)
    return _Aim(up, down, pace, wish.maximum, describe(demands), held)


def _step(
    aim: _Aim, deployment: Deployment, there: list[Crew], staying: int
) -> tuple[int | None, tuple[UUID, ...], tuple[str, str] | None]:
    """Return the replicas to write, the workers to drain, and whether something holds the aim back."""
    draining = deployment.replicas - staying
    if aim.up > staying:
        total = min(aim.most, aim.up + draining)
        now = min(total, aim.pace)
        pace = ("GrowthLimited", f"{total} replicas are wanted; {aim.pace} are allowed within {GROWTH_PERIOD:g} s")
        if now > deployment.replicas:
            return now, (), pace if now < total else aim.held
        if total > deployment.replicas:
            return None, (), pace
    surplus = max(0, staying - aim.down)
    if len({crew.pod.template for crew in there}) > 1:
        rollout = ("RolloutInProgress", "no worker is taken away before the rollout has ended")
        return None, (), rollout if surplus or draining else aim.held
    back = retreat(deployment, there, surplus)
    lowered = deployment.replicas - back.release if back.release else None
    return lowered, back.drain, back.hindrance or aim.held
