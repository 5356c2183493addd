"""``kind: Limit`` and ``kind: Queue``: the objects' YAML, and what they ask of the database.

Field for field what the API server accepts: the resource definitions in ``crds/`` are generated from these models, and
what a validator says over several fields stands beside it once more in CEL. Rules that compare an object with its
former self (an immutable ``key`` or ``name``) need both and are the API server's alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, model_validator

from tidegate.errors import InvalidInput, InvalidManifest, ManifestProblem
from tidegate.model import defaults
from tidegate.model.cel import CelRule, immutable, judged_by
from tidegate.model.documents import API_VERSION, Manifest, Part, problem, problems_of
from tidegate.model.durations import LONGEST, SECONDS_PATTERN, Seconds, duration_schema, format_duration
from tidegate.model.limits import LimitPolicy, MaxRunning, MaxStarts, Weight, Window
from tidegate.model.names import MAX_NAME, Name
from tidegate.model.queues import MaxAttempts, Priority, QueueOrder, QueueSpec

Replicas = Annotated[int, Field(strict=True, ge=0, le=defaults.MAX_SLOTS)]
"""Pods of a Deployment."""

Flag = Annotated[bool, Field(strict=True)]
"""True or false, never text or a number."""


def _more_than_zero(value: timedelta) -> timedelta:
    if not value:
        raise InvalidInput("timeout", "must be more than 0s; leave it out for none")
    return value


_TIMEOUT_RULE: Final = CelRule(
    f"duration(self) > duration('0s') && duration(self) <= duration('{LONGEST}')",
    f"must be more than 0s, and at most {LONGEST}; leave it out for none",
)


def _short_name(instead: str) -> CelRule:
    """The other half of ``_check_length``: an object's name is a key or a queue's name unless the spec gives one."""
    return CelRule(
        f"has(self.spec.{instead}) || size(self.metadata.name) <= {MAX_NAME}",
        f"metadata.name is longer than {MAX_NAME} characters; set spec.{instead}",
    )


class Rate(Part):
    """At most ``maxStarts`` jobs of the key start within any window."""

    max_starts: MaxStarts = Field(description="Starts allowed within any window.")
    window: Window = Field(description="Length of the sliding window as a Go duration: 500ms, 60s, 1h30m.")


class LimitManifestSpec(Part):
    """Caps on how many jobs that share a key run at once and start in a sliding window, over all workers."""

    model_config = ConfigDict(
        json_schema_extra=judged_by(
            CelRule(
                "has(self.maxRunning) || has(self.rate) || has(self.weight)",
                "must set at least one of maxRunning, rate or weight",
            ),
            immutable("key", "create another Limit for another key"),
        )
    )

    key: Name | None = Field(
        default=None,
        description="The limit key that jobs carry; metadata.name when left out. Unique per database. Immutable.",
    )
    max_running: MaxRunning | None = Field(
        default=None,
        description="At most this many jobs with the key run at once. 0 holds every job of the key back.",
    )
    rate: Rate | None = Field(default=None, description="At most maxStarts jobs of the key start within any window.")
    weight: Weight | None = Field(
        default=None, description="Share of the key in fair order, relative to other keys; 1 when left out."
    )
    deletion_policy: Literal["Delete", "Retain"] = Field(
        default="Delete",
        description="Whether the policy goes with this object. Without a policy the key is unlimited.",
    )
    deletion_grace_period: Seconds = Field(
        default=defaults.DELETION_GRACE_PERIOD,
        description="How long the policy outlives this object under Delete, so that a replace never opens the limit.",
    )

    @model_validator(mode="after")
    def _limits_something(self) -> LimitManifestSpec:
        if self.max_running is None and self.rate is None and self.weight is None:
            raise problem("must set at least one of maxRunning, rate or weight")
        return self


class LimitManifest(Manifest):
    """How many jobs of one key may run at once, and start in a sliding window, over all queues and workers."""

    model_config = ConfigDict(json_schema_extra=judged_by(_short_name("key")))

    kind: Literal["Limit"]
    spec: LimitManifestSpec

    @model_validator(mode="after")
    def _name_is_a_key(self) -> LimitManifest:
        if self.spec.key is None:
            _check_length(self.metadata.name, "set spec.key")
        return self

    @property
    def key(self) -> str:
        """The limit key: ``spec.key``, else the object's name."""
        return self.metadata.name if self.spec.key is None else self.spec.key

    def to_limit_policy(self) -> LimitPolicy:
        """The whole policy that the object asks for: parts that it leaves out are not limited."""
        rate = self.spec.rate
        return LimitPolicy(
            key=self.key,
            max_running=self.spec.max_running,
            max_starts=rate.max_starts if rate else None,
            window=rate.window if rate else None,
            weight=self.spec.weight,
        )


class DeploymentRef(Part):
    """A Deployment in the same namespace. The operator changes its replicas and nothing else."""

    name: Annotated[str, Field(min_length=1, max_length=253)] = Field(description="Name of the Deployment.")


class QueueWorkers(Part):
    """Workers of the queue that the operator scales."""

    model_config = ConfigDict(
        json_schema_extra=judged_by(
            CelRule("self.minReplicas <= self.maxReplicas", "must not exceed maxReplicas", ".minReplicas")
        )
    )

    deployment_ref: DeploymentRef = Field(
        description="A Deployment in the same namespace. The operator changes its replicas and nothing else."
    )
    slots: Annotated[int, Field(strict=True, ge=1, le=defaults.MAX_SLOTS)] = Field(
        default=defaults.SLOTS,
        description="Jobs that one worker runs at once, for planning; workers that report their slots overrule it.",
    )
    replicas: Replicas | None = Field(
        default=None, description="Wanted replicas in Manual mode; the scale subresource writes here."
    )
    min_replicas: Replicas = Field(
        default=defaults.MIN_REPLICAS, description="Fewest replicas in Auto mode; 0 lets an idle queue go without."
    )
    max_replicas: Annotated[int, Field(strict=True, ge=1, le=defaults.MAX_SLOTS)] = Field(
        default=defaults.MAX_REPLICAS, description="Most replicas in Auto mode, however many jobs could run."
    )

    @model_validator(mode="after")
    def _bounds_are_ordered(self) -> QueueWorkers:
        if self.min_replicas > self.max_replicas:
            raise problem(f"must not exceed maxReplicas ({self.max_replicas}); got {self.min_replicas}", "minReplicas")
        return self


class QueueScaling(Part):
    """How the number of workers follows the runnable jobs."""

    mode: Literal["Auto", "Manual", "Off"] = Field(
        default="Auto",
        description="Auto: from runnable jobs. Manual: workers.replicas. Off: replicas are never written.",
    )
    target_utilization: Annotated[int, Field(strict=True, ge=1, le=100)] = Field(
        default=defaults.TARGET_UTILIZATION, description="Percent of the slots to plan for."
    )
    scale_down_window: Seconds = Field(
        default=defaults.SCALE_DOWN_WINDOW,
        description="Fewer workers only when every recommendation in this window asked for fewer.",
    )
    idle_grace: Seconds = Field(
        default=defaults.IDLE_GRACE, description="Idle time before the step to 0 when minReplicas is 0."
    )


class QueueDefaults(Part):
    """For jobs enqueued without their own."""

    priority: Priority | None = Field(
        default=None, description=f"Priority of a job, a higher one goes first; {defaults.PRIORITY} when left out."
    )
    max_attempts: MaxAttempts | None = Field(
        default=None, description=f"Attempts of a job before it is dead; {defaults.MAX_ATTEMPTS} when left out."
    )
    timeout: (
        Annotated[Seconds, AfterValidator(_more_than_zero), duration_schema(SECONDS_PATTERN, _TIMEOUT_RULE)] | None
    ) = Field(default=None, description="Longest run of one attempt, as in 10m; without end when left out.")


class QueueRetention(Part):
    """How long finished jobs are kept; 0s keeps none."""

    succeeded: Seconds | None = Field(
        default=None,
        description=f"How long succeeded jobs are kept; {format_duration(defaults.KEEP_SUCCEEDED)} when left out.",
    )
    dead: Seconds | None = Field(
        default=None,
        description=f"How long dead jobs are kept, to be retried; {format_duration(defaults.KEEP_DEAD)} when left out.",
    )


class QueueManifestSpec(Part):
    """One queue of jobs, the order in which it is claimed, and the Deployment of workers that serves it."""

    model_config = ConfigDict(
        json_schema_extra=judged_by(
            immutable("name", "create another Queue for another name"),
            CelRule(
                "self.scaling.mode != 'Manual' || (has(self.workers) && has(self.workers.replicas))",
                "is Manual and needs workers.replicas",
                ".scaling.mode",
            ),
        )
    )

    name: Name | None = Field(
        default=None, description="Queue name in the database; metadata.name when left out. Immutable."
    )
    order: Literal["Priority", "Fair"] = Field(
        default="Priority",
        description=(
            "Priority: higher priority, then run_at, then id."
            " Fair: within a priority, the group with the fewest running jobs for its weight."
        ),
    )
    suspend: Flag = Field(default=False, description="Workers claim nothing from this queue; running jobs go on.")
    workers: QueueWorkers | None = Field(
        default=None, description="Workers of the queue that the operator scales; left out, it scales nothing."
    )
    scaling: QueueScaling = Field(
        default_factory=QueueScaling,
        description="How the number of workers follows the runnable jobs.",
        # the rule on Manual reads it, so the API server has to fill it in
        json_schema_extra={"default": {}},
    )
    defaults: QueueDefaults = Field(default_factory=QueueDefaults, description="For jobs enqueued without their own.")
    retention: QueueRetention = Field(
        default_factory=QueueRetention, description="How long finished jobs are kept; 0s keeps none."
    )

    @model_validator(mode="after")
    def _manual_names_its_replicas(self) -> QueueManifestSpec:
        if self.scaling.mode == "Manual" and (self.workers is None or self.workers.replicas is None):
            raise problem("is Manual and needs workers.replicas", "scaling", "mode")
        return self


class QueueManifest(Manifest):
    """One queue of jobs: the order in which it is claimed, what its jobs default to, and which workers serve it."""

    model_config = ConfigDict(json_schema_extra=judged_by(_short_name("name")))

    kind: Literal["Queue"]
    spec: QueueManifestSpec

    @model_validator(mode="after")
    def _name_is_a_queue(self) -> QueueManifest:
        if self.spec.name is None:
            _check_length(self.metadata.name, "set spec.name")
        return self

    @property
    def name(self) -> str:
        """The queue's name: ``spec.name``, else the object's name."""
        return self.metadata.name if self.spec.name is None else self.spec.name

    def to_queue_spec(self) -> QueueSpec:
        """Everything that the object says to the database; scaling is the operator's business alone."""
        return QueueSpec(
            name=self.name,
            order=QueueOrder(self.spec.order.lower()),
            suspended=self.spec.suspend,
            default_priority=self.spec.defaults.priority,
            default_max_attempts=self.spec.defaults.max_attempts,
            default_timeout=self.spec.defaults.timeout,
            keep_succeeded=self.spec.retention.succeeded,
            keep_dead=self.spec.retention.dead,
        )


KINDS: Final[Mapping[str, type[LimitManifest | QueueManifest]]] = {
    "Limit": LimitManifest,
    "Queue": QueueManifest,
}
"""The kinds by the word in ``kind``."""


def parse_manifest(document: object) -> LimitManifest | QueueManifest:
    """Read one decoded YAML or JSON document; raises ``InvalidManifest`` with every problem and its path."""
    if not isinstance(document, Mapping):
        raise InvalidManifest([ManifestProblem((), f"must be a mapping of fields; got {type(document).__name__}")])
    api_version, kind = document.get("apiVersion"), document.get("kind")
    if api_version != API_VERSION:
        raise InvalidManifest([ManifestProblem(("apiVersion",), f"must be {API_VERSION}; got {api_version!r}")])
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidManifest([ManifestProblem(("kind",), f"must be {' or '.join(KINDS)}; got {kind!r}")])
    model = KINDS[kind]
    try:
        return model.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        raise problems_of(error, model) from None


def _check_length(name: str, instead: str) -> None:
    if len(name) > MAX_NAME:
        raise problem(f"is longer than {MAX_NAME} characters; {instead}", "metadata", "name")
