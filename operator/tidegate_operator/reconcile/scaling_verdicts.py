"""Whether a Deployment may be scaled at all, what its Queue objects agree on, and the conditions that say so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidegate_operator.reconcile.scaling_observations import Demand, Mode, Observation


@dataclass(frozen=True, slots=True)
class Finding:
    """A condition to show on each Queue that names the Deployment."""

    type: str
    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Wish:
    """What the Queue objects of one Deployment ask for together; ``replicas`` only in ``Manual``."""

    minimum: int
    maximum: int
    slots: int
    target: int
    window: float
    idle_grace: float
    replicas: int | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing is scaled, as a reason and a sentence that says what to do."""

    reason: str
    message: str


def agreed(seen: Observation, *, rivalled: bool) -> Wish | Refusal:
    """Return what the Queue objects agree on, or why they cannot be served.

    They must agree on mode and bounds, since there is one number of replicas. In the rest the more careful one holds:
    fewer slots, a lower target, a longer window and grace.

    Args:
        seen: the Queue objects, and the Deployment with the autoscalers that target it.
        rivalled: somebody else keeps writing the replicas.
    """
    queues, deployment = seen.queues, seen.deployment
    if deployment is None:
        message = "the Deployment of workers.deploymentRef is not there: apply it, or correct the name"
        return Refusal("DeploymentNotFound", message)
    if (
        len(
            {
                (each.mode, each.minimum, each.maximum, each.replicas if each.mode is Mode.MANUAL else 0)
                for each in queues
            }
        )
        > 1
    ):
        message = (
            f"queues {', '.join(sorted(queue.name for queue in queues))} share the Deployment {deployment.name} and"
            " must have one mode, minReplicas, maxReplicas and, in Manual, replicas"
        )
        return Refusal("DeploymentShared", message)
    first = queues[0]
    if first.mode is Mode.OFF:
        return Refusal("ScalingOff", "scaling.mode is Off: the replicas are never written")
    if seen.demands is None:
        return Refusal("DatabaseUnavailable", "demand cannot be read: the workers that there are stay")
    rivals = ", ".join(deployment.autoscalers) or ("somebody else" if rivalled else "")
    if rivals:
        message = f"{rivals} scales the Deployment {deployment.name} too: remove that, or set scaling.mode to Off"
        return Refusal("OtherAutoscaler", message)
    if first.mode is Mode.MANUAL and first.replicas is None:
        return Refusal(
            "ManualWithoutReplicas", "scaling.mode is Manual: set workers.replicas, or kubectl scale the Queue"
        )
    return Wish(
        minimum=first.minimum,
        maximum=first.maximum,
        slots=min(queue.slots for queue in queues),
        target=min(queue.target for queue in queues),
        window=max(queue.window for queue in queues),
        idle_grace=max(queue.idle_grace for queue in queues),
        replicas=first.replicas if first.mode is Mode.MANUAL else None,
    )


def inactive(refusal: Refusal) -> tuple[Finding, Finding]:
    """Return the conditions of a Deployment that is left as it is."""
    return (
        Finding("ScalingActive", "False", refusal.reason, refusal.message),
        Finding("ScalingLimited", "False", "NotScaled", "nothing is scaled"),
    )


def active(wish: Wish, message: str) -> Finding:
    """Return the condition of a Deployment that is scaled."""
    return Finding("ScalingActive", "True", "ByHand" if wish.replicas is not None else "ByDemand", message)


def limited(held: tuple[str, str] | None) -> Finding:
    """Return the condition that says whether the workers there are those that the load alone would ask for."""
    if held is None:
        return Finding("ScalingLimited", "False", "AsWanted", "the workers are those that the load asks for")
    return Finding("ScalingLimited", "True", *held)


def describe(demands: Iterable[Demand]) -> str:
    """Return the load as a sentence: ``3 running, 12 runnable, 480 blocked by vendor-x (MaxRunning)``."""
    demands = list(demands)
    running, runnable, blocked = (
        sum(getattr(demand, part) for demand in demands) for part in ("running", "runnable", "blocked")
    )
    text = f"{running} running, {runnable} runnable, {blocked} blocked"
    worst = max((blocker for demand in demands for blocker in demand.blockers), key=lambda b: b.jobs, default=None)
    keys = {blocker.key for demand in demands for blocker in demand.blockers}
    if worst is None:
        return text
    others = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
    return f"{text} by {worst.key} ({worst.by}){others}"


def demands_of(seen: Observation, demands: Mapping[str, Demand]) -> list[Demand]:
    """Return the demand of each queue of the Deployment once, however many objects name it."""
    return [demands.get(queue, Demand()) for queue in sorted({each.queue for each in seen.queues})]
