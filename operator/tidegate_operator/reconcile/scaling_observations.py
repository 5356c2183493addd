"""What a scaling decision looks at: Queue objects, demand, the Deployment with its pods, and the workers in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from uuid import UUID

STUCK_AFTER: Final = 600.0
"""Seconds for which a pod is unready, and without a worker, until it counts as one that will not start."""


class Mode(StrEnum):
    """``spec.scaling.mode`` of a Queue, as its object writes it."""

    AUTO = "Auto"
    """Workers from what limits would let run."""
    MANUAL = "Manual"
    """Workers from ``spec.workers.replicas``, which the scale subresource writes."""
    OFF = "Off"
    """The Deployment is somebody else's to scale."""


@dataclass(frozen=True, slots=True)
class QueueWorkers:
    """What one Queue object says of its workers: ``spec.workers`` and ``spec.scaling``.

    Args:
        name: the object's name, for messages.
        queue: the queue in the database.
        mode: who decides.
        slots: jobs that one worker runs at once, until workers report theirs.
        replicas: workers wanted in `Mode.MANUAL`.
        minimum, maximum: bounds in `Mode.AUTO`.
        target: percent of the slots to plan for.
        window: seconds; workers are taken away only when every recommendation within them asked for fewer.
        idle_grace: seconds without work before the last worker goes, where ``minimum`` is 0.
    """

    name: str
    queue: str
    mode: Mode = Mode.AUTO
    slots: int = 10
    replicas: int | None = None
    minimum: int = 0
    maximum: int = 10
    target: int = 100
    window: float = 120.0
    idle_grace: float = 300.0


@dataclass(frozen=True, slots=True)
class Blocker:
    """A key that holds jobs of a queue back, and by which part of its Limit."""

    key: str
    jobs: int
    by: str


@dataclass(frozen=True, slots=True)
class Demand:
    """A row of the view ``queue_demand``; a queue without a row has none of anything."""

    running: int = 0
    runnable: int = 0
    blocked: int = 0
    blockers: tuple[Blocker, ...] = ()


@dataclass(frozen=True, slots=True)
class Worker:
    """A live row of ``workers``, and the jobs that it holds: whatever runs under its token, in every queue."""

    id: UUID
    pod: str
    slots: int
    jobs: int
    draining: bool = False


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of the Deployment.

    Args:
        name: its name, which its workers report.
        ready: whether its condition ``Ready`` is true.
        age: seconds since it was made.
        unready: seconds since it was ready last, or since it was made; 0 while it is.
        template: label ``pod-template-hash``: two of them at once are a rollout.
        terminating: it has a ``deletionTimestamp``, and no longer counts as a replica.
    """

    name: str
    ready: bool
    age: float = 0.0
    unready: float = 0.0
    template: str = ""
    terminating: bool = False


@dataclass(frozen=True, slots=True)
class Deployment:
    """The Deployment as ``deployments/scale``, the list of its pods and the database show it.

    Args:
        name: its name, for messages.
        replicas: ``spec.replicas``.
        version: ``metadata.resourceVersion``, which guards the write.
        pods: all pods that its selector matches.
        autoscalers: HorizontalPodAutoscalers that target it, KEDA's among them.
    """

    name: str
    replicas: int
    version: str = ""
    pods: tuple[Pod, ...] = ()
    autoscalers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at everything that has to do with one Deployment.

    The order of reading matters: Deployment and pods first, the database after them. A worker that the database then
    shows as draining and empty stays empty, so that a pod seen unready before cannot have become busy since.

    Args:
        queues: the Queue objects that name the Deployment; at least one.
        deployment: None where it does not exist.
        demands: by queue; None where the database cannot be read.
        workers: all live workers; those of other pods are passed over.
    """

    queues: tuple[QueueWorkers, ...]
    deployment: Deployment | None
    demands: Mapping[str, Demand] | None
    workers: tuple[Worker, ...] = ()


@dataclass(frozen=True, slots=True)
class Crew:
    """A pod that counts as a replica, with the workers in it."""

    pod: Pod
    workers: tuple[Worker, ...]

    @property
    def jobs(self) -> int:
        """Jobs that its workers hold."""
        return sum(worker.jobs for worker in self.workers)

    @property
    def leaving(self) -> bool:
        """A worker of it is draining, so the pod was chosen to go, even if its other workers are not marked yet."""
        return any(worker.draining for worker in self.workers)

    @property
    def gone_quiet(self) -> bool:
        """Drained, empty and unready: nothing is lost with it, and nothing starts in it any more."""
        drained = bool(self.workers) and all(worker.draining for worker in self.workers)
        return drained and self.jobs == 0 and not self.pod.ready

    @property
    def stuck(self) -> bool:
        """It has been no worker for so long that it will be none: an image that cannot be pulled, a crash loop."""
        return not self.pod.ready and not self.workers and self.pod.unready >= STUCK_AFTER


def crews(deployment: Deployment, workers: tuple[Worker, ...]) -> list[Crew]:
    """Return the pods that count as replicas, each with its workers."""
    return [
        Crew(pod, tuple(worker for worker in workers if worker.pod == pod.name))
        for pod in deployment.pods
        if not pod.terminating
    ]
