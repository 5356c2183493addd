"""The two custom resource definitions: names, columns of ``kubectl get`` and subresources around the models' schemas.

``crds/*.yaml`` are generated from here; nobody edits them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import BaseModel

from tidegate.model.documents import API_VERSION
from tidegate.model.manifests import LimitManifest, QueueManifest
from tidegate.model.object_statuses import LimitStatusPart, QueueStatusPart
from tidegate_operator.schemas import Schema, structural_schema, validations

GROUP, _, VERSION = API_VERSION.partition("/")

CATEGORY: Final = "tidegate"
"""``kubectl get tidegate`` lists both kinds."""


@dataclass(frozen=True)
class Column:
    """One column of ``kubectl get``; a wide one is shown with ``-o wide``."""

    name: str
    type: Literal["boolean", "date", "integer", "string"]
    path: str
    description: str = ""
    wide: bool = False

    def as_printed(self) -> Schema:
        """The entry of ``additionalPrinterColumns``."""
        described = {"description": self.description} if self.description else {}
        placed = {"priority": 1} if self.wide else {}
        return {"name": self.name, "type": self.type, "jsonPath": self.path, **described, **placed}


@dataclass(frozen=True)
class Resource:
    """One kind of object, as the API server is told about it."""

    kind: str
    plural: str
    singular: str
    short_name: str
    manifest: type[BaseModel]
    status: type[BaseModel]
    columns: tuple[Column, ...]
    scale: Mapping[str, str] | None = None

    @property
    def name(self) -> str:
        """Name of the definition, which is also the full name for kubectl: ``limits.tidegate.dev``."""
        return f"{self.plural}.{GROUP}"


def _condition(kind: str, part: str) -> str:
    return f'.status.conditions[?(@.type=="{kind}")].{part}'


READY: Final = Column("Ready", "string", _condition("Ready", "status"), "Whether the object is in force")
AGE: Final = Column("Age", "date", ".metadata.creationTimestamp")
REASON: Final = Column("Reason", "string", _condition("Ready", "reason"), "Why it is ready or not", wide=True)
UPDATED: Final = Column("Updated", "date", ".status.observedAt", "When the numbers were read", wide=True)

LIMITS: Final = Resource(
    kind="Limit",
    plural="limits",
    singular="limit",
    # never limit or limits: LimitRange has that word, and the API server would accept none of the names
    short_name="tgl",
    manifest=LimitManifest,
    status=LimitStatusPart,
    columns=(
        Column("Key", "string", ".status.key", "The limit key of the jobs"),
        Column("Running", "integer", ".status.running", "Jobs of the key that run now"),
        Column("Max", "integer", ".spec.maxRunning", "At most this many run at once"),
        Column("Waiting", "integer", ".status.waiting", "Ready jobs of the key that have not started"),
        Column("Starts", "string", ".status.startsSummary", "Starts in the window and how many it allows"),
        READY,
        AGE,
        Column("Blocked", "integer", ".status.blocked", "Waiting jobs that this limit holds back", wide=True),
        Column("Window", "string", ".spec.rate.window", "Length of the sliding window", wide=True),
        REASON,
        UPDATED,
    ),
)

QUEUES: Final = Resource(
    kind="Queue",
    plural="queues",
    singular="queue",
    short_name="tgq",
    manifest=QueueManifest,
    status=QueueStatusPart,
    columns=(
        Column("Running", "integer", ".status.running", "Jobs of the queue that run now"),
        Column("Runnable", "integer", ".status.runnable", "Ready jobs that the limits would let start now"),
        Column("Blocked", "integer", ".status.blocked", "Ready jobs that limits hold back"),
        Column("Workers", "string", ".status.workers.summary", "Ready and desired workers"),
        Column("Lag", "string", ".status.oldestRunnableAge", "How long the oldest runnable job has waited"),
        READY,
        AGE,
        Column("Order", "string", ".spec.order", "Order in which jobs are claimed", wide=True),
        Column("Suspended", "boolean", ".spec.suspend", "Whether workers claim nothing from it", wide=True),
        Column("Scheduled", "integer", ".status.scheduled", "Jobs that wait for their time", wide=True),
        Column("Dead", "integer", ".status.dead", "Jobs that are out of attempts", wide=True),
        Column("Min", "integer", ".spec.workers.minReplicas", "Fewest workers", wide=True),
        Column("Max", "integer", ".spec.workers.maxReplicas", "Most workers", wide=True),
        REASON,
        UPDATED,
    ),
    # kubectl scale, an HPA or KEDA may write it while scaling.mode is Manual
    scale={
        "specReplicasPath": ".spec.workers.replicas",
        "statusReplicasPath": ".status.workers.replicas",
        "labelSelectorPath": ".status.workers.selector",
    },
)

RESOURCES: Final = (LIMITS, QUEUES)


def definition(resource: Resource) -> Schema:
    """The whole CustomResourceDefinition, as it is written to ``crds/``."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.name},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.singular,
                "shortNames": [resource.short_name],
                "categories": [CATEGORY],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}, **({"scale": dict(resource.scale)} if resource.scale else {})},
                    "additionalPrinterColumns": [column.as_printed() for column in resource.columns],
                    "schema": {"openAPIV3Schema": _object_schema(resource)},
                }
            ],
        },
    }


def _object_schema(resource: Resource) -> Schema:
    """The model's schema for ``spec``; what lies around it is Kubernetes' own business."""
    whole: dict[str, Any] = resource.manifest.model_json_schema(by_alias=True)
    spec = resource.manifest.model_fields["spec"].annotation
    if not (isinstance(spec, type) and issubclass(spec, BaseModel)):
        raise TypeError(f"{resource.kind}: the spec of a manifest is a model of its own")
    return {
        "description": whole["description"].replace("``", ""),
        "type": "object",
        "x-kubernetes-validations": validations(whole),
        "required": ["spec"],
        "properties": {
            "apiVersion": {"description": f"Group and version of the object: {API_VERSION}.", "type": "string"},
            "kind": {"description": f"Kind of the object: {resource.kind}.", "type": "string"},
            "metadata": {"type": "object"},
            "spec": structural_schema(spec),
            "status": structural_schema(resource.status),
        },
    }
