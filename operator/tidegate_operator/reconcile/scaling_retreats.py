"""How workers are taken away without ending one that holds a job.

A ReplicaSet that shrinks ends unready pods first, whatever their deletion cost. So a worker is first marked draining in
the database, claims nothing more, finishes what it holds, and then answers 503 on ``/readyz``. Only when Kubernetes
shows it unready are the replicas lowered, by the number of such pods and never by more, and only while no other
unready pod could be hit in their place.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from tidegate_operator.reconcile.scaling_observations import Crew, Deployment


@dataclass(frozen=True, slots=True)
class Retreat:
    """A step down: workers to mark, replicas to take off now, and what holds the rest back, as (reason, message)."""

    drain: tuple[UUID, ...] = ()
    release: int = 0
    hindrance: tuple[str, str] | None = None


NO_RETREAT = Retreat()
"""Nobody goes."""


def retreat(deployment: Deployment, there: list[Crew], surplus: int) -> Retreat:
    """Return the next step down.

    Args:
        deployment: as it was seen.
        there: its pods that are not terminating, with their workers.
        surplus: replicas beside the leaving ones that nobody needs; 0 still releases those that drained before.
    """
    if len(there) > deployment.replicas:
        return Retreat(hindrance=("ScalingIn", "pods of the last step down are still ending"))
    stuck = [crew for crew in there if crew.stuck][: max(0, surplus)]
    missing = min(deployment.replicas - len(there), max(0, surplus - len(stuck)))
    drain = (*_marks_left(there), *_chosen(there, surplus - len(stuck) - missing))
    if missing:
        # replicas that have no pod yet: taking them off ends none
        return Retreat(drain, release=missing)
    quiet = [crew for crew in there if crew.gone_quiet]
    if not quiet and not stuck:
        return Retreat(drain, hindrance=_waiting(there, surplus - len(stuck) - missing))
    if len(there) < deployment.replicas:
        return Retreat(drain, hindrance=("PodsMissing", "pods that were asked for are not there yet"))
    hazards = [crew.pod.name for crew in there if not (crew.pod.ready or crew.gone_quiet or crew.stuck)]
    if hazards:
        message = f"{_some(hazards)} not ready and may start jobs: the step down would end unready pods first"
        return Retreat(drain, hindrance=("UnreadyPods", message))
    return Retreat(drain, release=len(quiet) + len(stuck))


def _chosen(there: list[Crew], count: int) -> tuple[UUID, ...]:
    """Workers of the pods that have least to finish, the youngest first where that is equal."""
    if count <= 0:
        return ()
    candidates = [crew for crew in there if crew.workers and not crew.leaving]
    candidates.sort(key=lambda crew: (crew.jobs, crew.pod.age, crew.pod.name))
    return tuple(worker.id for crew in candidates[:count] for worker in crew.workers)


def _marks_left(there: list[Crew]) -> tuple[UUID, ...]:
    """Workers in a pod that was chosen before which are not marked yet."""
    return tuple(worker.id for crew in there if crew.leaving for worker in crew.workers if not worker.draining)


def _waiting(there: list[Crew], surplus: int) -> tuple[str, str] | None:
    leaving = [crew for crew in there if crew.leaving]
    jobs = sum(crew.jobs for crew in leaving)
    known = sum(bool(crew.workers) for crew in there) - len(leaving)
    if surplus > known:
        message = (
            f"{surplus - known} pods have no worker that the database knows: they are starting, or do not report"
            " TIDEGATE_POD and TIDEGATE_NAMESPACE"
        )
        return ("PodsWithoutWorker", message)
    if surplus > 0:
        return ("Draining", f"{surplus} more workers take no new jobs from now on")
    if jobs:
        return ("Draining", f"{len(leaving)} workers take no new jobs and finish the {jobs} that they hold")
    if leaving:
        names = _some([crew.pod.name for crew in leaving])
        return (
            "Draining",
            f"{names} drained and empty, and will go once unready: the readiness probe must ask /readyz",
        )
    return None


def _some(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:3])
    return (
        f"{shown} and {len(names) - 3} more are" if len(names) > 3 else f"{shown} {'is' if len(names) == 1 else 'are'}"
    )
