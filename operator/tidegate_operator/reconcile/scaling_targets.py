"""Which Deployments are to be looked at, for which Queue objects, and what those are shown of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from tidegate.model.demands import QueueNumbers
from tidegate.model.manifests import QueueManifest
from tidegate_operator.conditions import Condition
from tidegate_operator.reconcile.scaling import Plan
from tidegate_operator.reconcile.scaling_observations import Blocker, Demand, Mode, QueueWorkers
from tidegate_operator.reconcile.scaling_verdicts import Refusal, inactive
from tidegate_operator.reconcile.statuses import Shown, timestamp
from tidegate_operator.reconcile.verdicts import Notice
from tidegate_operator.resources import Resource


@dataclass(frozen=True)
class Target:
    """A Deployment and the Queue objects that name it."""

    namespace: str
    deployment: str
    queues: tuple[QueueWorkers, ...]
    uids: tuple[str, ...]

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name of the Deployment."""
        return self.namespace, self.deployment


def targets_of(resources: Iterable[Resource]) -> list[Target]:
    """Return the Deployments that these Queue objects name; objects that do not own their queue are not to be given."""
    found: dict[tuple[str, str], list[tuple[QueueWorkers, str]]] = {}
    for each in resources:
        manifest = each.manifest
        if isinstance(manifest, QueueManifest) and manifest.spec.workers is not None:
            at = (each.identity.namespace, manifest.spec.workers.deployment_ref.name)
            found.setdefault(at, []).append((_queue(manifest), each.identity.uid))
    return [
        Target(namespace, name, tuple(queue for queue, _ in members), tuple(uid for _, uid in members))
        for (namespace, name), members in sorted(found.items())
    ]


def _queue(manifest: QueueManifest) -> QueueWorkers:
    workers, scaling = manifest.spec.workers, manifest.spec.scaling
    assert workers is not None  # noqa: S101 - the caller has looked
    return QueueWorkers(
        name=manifest.metadata.name,
        queue=manifest.name,
        mode=Mode(scaling.mode),
        slots=workers.slots,
        replicas=workers.replicas,
        minimum=workers.min_replicas,
        maximum=workers.max_replicas,
        target=scaling.target_utilization,
        window=scaling.scale_down_window.total_seconds(),
        idle_grace=scaling.idle_grace.total_seconds(),
    )


def demand_of(numbers: QueueNumbers) -> Demand:
    """Return a queue's numbers as scaling takes them."""
    blockers = tuple(Blocker(str(each["key"]), int(each["jobs"]), str(each["by"])) for each in numbers.blocked_by)
    return Demand(numbers.running, numbers.runnable, numbers.blocked, blockers)


def shown_of(plan: Plan, replicas: int | None, selector: str, scaled_at: datetime | None) -> Shown:
    """Return what the Queue objects of a Deployment are shown of a plan; ``replicas`` are those that were found."""
    workers: dict[str, object] = {}
    if replicas is not None:
        workers = {
            "replicas": replicas,
            "readyReplicas": plan.ready,
            "drainingReplicas": plan.draining,
            "selector": selector,
            "summary": f"{plan.ready}/{replicas if plan.desired is None else plan.desired}",
        }
        if plan.desired is not None:
            workers["desiredReplicas"] = plan.desired
        if scaled_at is not None:
            workers["lastScaleTime"] = timestamp(scaled_at)
    return Shown(workers, [Condition(each.type, each.status, each.reason, each.message) for each in plan.findings])


def refused(message: str) -> Shown:
    """Return what the Queue objects of a Deployment are shown that the API server lets nobody look at."""
    found = inactive(Refusal("NotPermitted", f"the operator may not see or scale the Deployment: {message}"))
    return Shown({}, [Condition(each.type, each.status, each.reason, each.message) for each in found])


def asked_replicas(resources: Iterable[Resource]) -> dict[str, int | None]:
    """Return ``workers.replicas`` of Queue objects that scale by demand, by uid: there nobody reads them."""
    found = {}
    for each in resources:
        manifest = each.manifest
        if isinstance(manifest, QueueManifest) and manifest.spec.workers and manifest.spec.scaling.mode == "Auto":
            found[each.identity.uid] = manifest.spec.workers.replicas
    return found


def ignored(before: Mapping[str, int | None], after: Mapping[str, int | None]) -> list[Notice]:
    """Return what to tell those who scaled a Queue by hand that scales by demand."""
    return [
        Notice(
            uid,
            "ScaleIgnored",
            f"workers.replicas is {replicas}, and scaling.mode Auto does not read it; set minReplicas and maxReplicas,"
            " or scaling.mode to Manual",
            warning=True,
        )
        for uid, replicas in after.items()
        if replicas is not None and uid in before and before[uid] != replicas
    ]


def is_settled(plan: Plan, replicas: int | None, demands: Mapping[str, Demand]) -> bool:
    """Tell whether nothing is under way, so that the next look may wait until the numbers change."""
    if replicas is None:
        return True
    quiet = plan.replicas is None and not plan.drain and not plan.draining
    busy = any(each.running or each.runnable for each in demands.values())
    return quiet and plan.present == replicas == plan.ready and (not busy or plan.desired in {None, replicas})
