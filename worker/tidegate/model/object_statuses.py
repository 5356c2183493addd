"""The ``status`` of Limit and Queue objects: what the operator writes and kubectl shows.

Every part may be missing: an object that nobody has looked at yet has no status at all.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import Field

from tidegate.model.documents import Part

MAX_CONDITIONS: Final = 16
"""Most conditions of one object."""

MAX_BLOCKERS: Final = 10
"""Most keys that a Queue's status names as holding its jobs back."""

MAX_REASON: Final = 1_024
"""Most characters of a condition's reason (the bound of Kubernetes' own conditions)."""

MAX_MESSAGE: Final = 32_768
"""Most characters of a condition's message (the bound of Kubernetes' own conditions)."""

Count = Annotated[int, Field(ge=0)]
"""A number of jobs, starts or corrections."""

Pods = Annotated[int, Field(ge=0, le=2**31 - 1)]
"""A number of pods, as Kubernetes counts them."""


class Condition(Part):
    """One aspect of the object: whether it holds, since when, and why."""

    type: Annotated[str, Field(max_length=316)] = Field(description="What is judged, as in Ready.")
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    observed_generation: Count | None = Field(
        default=None, description="Generation of the object that was judged; an older one is out of date."
    )
    last_transition_time: datetime = Field(description="When the status last changed.")
    reason: Annotated[str, Field(min_length=1, max_length=MAX_REASON)] = Field(
        description="One word that programs can test; the documentation lists them with what to do."
    )
    message: Annotated[str, Field(max_length=MAX_MESSAGE)] = Field(description="A sentence for people that says why.")


Conditions = Annotated[
    list[Condition],
    Field(
        max_length=MAX_CONDITIONS,
        description="What holds for this object now, one entry for each type.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
]
"""At most one condition of each type."""


class KeyOwner(Part):
    """The object that holds the key or the queue."""

    cluster: str | None = Field(default=None, description="Id of its cluster.")
    namespace: str | None = Field(default=None, description="Its namespace.")
    name: str | None = Field(default=None, description="Its name.")
    uid: str | None = Field(default=None, description="Its uid.")


class ObjectStatus(Part):
    """What the status of both kinds begins with."""

    observed_generation: Count | None = Field(
        default=None, description="Generation of the object that the operator has last acted on."
    )
    observed_at: datetime | None = Field(default=None, description="When the numbers below were read.")
    running: Count | None = Field(default=None, description="Jobs that run now.")
    blocked: Count | None = Field(default=None, description="Ready jobs that limits hold back.")
    owner: KeyOwner | None = Field(
        default=None, description="Under a conflict, the object that holds the key or the queue instead of this one."
    )
    drift_corrections: Count | None = Field(
        default=None, description="How often a change by hand in the database was put back."
    )
    conditions: Conditions | None = None


class LimitStatusPart(ObjectStatus):
    """What holds for the key now, over all queues and workers."""

    key: str | None = Field(default=None, description="The key that the object governs: spec.key, else its name.")
    waiting: Count | None = Field(default=None, description="Ready jobs with the key that have not started.")
    starts_in_window: Count | None = Field(
        default=None, description="Starts that count against rate.maxStarts at this instant."
    )
    starts_summary: str | None = Field(
        default=None, description="Starts in the window and how many it allows, as in 37/100."
    )
    next_start_at: datetime | None = Field(
        default=None, description="When the window lets the next job start, where it is full."
    )


class BlockingKey(Part):
    """A key that holds jobs of the queue back."""

    key: str = Field(description="The limit key.")
    jobs: Count = Field(description="Ready jobs of the queue that it holds back.")
    by: Literal["MaxRunning", "Rate"] = Field(description="The part of its Limit that does.")


class WorkersStatus(Part):
    """Workers of the queue's Deployment."""

    replicas: Pods | None = Field(default=None, description="Replicas of the Deployment.")
    ready_replicas: Pods | None = Field(default=None, description="Pods that are ready.")
    desired_replicas: Pods | None = Field(default=None, description="Replicas that scaling asks for.")
    draining_replicas: Pods | None = Field(
        default=None, description="Workers that finish their jobs, take no new ones and then go."
    )
    last_scale_time: datetime | None = Field(default=None, description="When the operator last changed the replicas.")
    summary: str | None = Field(default=None, description="Ready and desired replicas, as in 2/3.")
    selector: str | None = Field(
        default=None,
        description="Label selector of the pods, as text: what an autoscaler needs of the scale subresource.",
    )


class QueueStatusPart(ObjectStatus):
    """What holds for the queue now."""

    runnable: Count | None = Field(default=None, description="Ready jobs that the limits would let start now.")
    scheduled: Count | None = Field(default=None, description="Jobs that wait for their time.")
    dead: Count | None = Field(default=None, description="Jobs that are out of attempts and can be retried by hand.")
    oldest_runnable_age: str | None = Field(
        default=None, description="How long the oldest runnable job has waited, as in 12s."
    )
    blocked_by: Annotated[list[BlockingKey], Field(max_length=MAX_BLOCKERS)] | None = Field(
        default=None, description="The keys that hold most jobs back."
    )
    workers: WorkersStatus | None = Field(default=None, description="Workers of the queue's Deployment.")
