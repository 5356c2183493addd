"""Queues: what objects ask of queues, as claims, and what the database is told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidegate.model.defaults import DELETION_GRACE_PERIOD
from tidegate.model.manifests import QueueManifest
from tidegate.model.queues import QueueSpec
from tidegate_operator.reconcile.ownership import Claim, RowWrite
from tidegate_operator.resources import Resource


def queue_claims(resources: Iterable[Resource], fresh: frozenset[str]) -> list[Claim]:
    """Return what these objects ask for; one that cannot be read asks for nothing."""
    return [_claim(each, each.manifest, fresh) for each in resources if isinstance(each.manifest, QueueManifest)]


def _claim(resource: Resource, manifest: QueueManifest, fresh: frozenset[str]) -> Claim:
    identity = resource.identity
    return Claim(
        uid=identity.uid,
        namespace=identity.namespace,
        name=identity.name,
        created_at=resource.created_at,
        generation=resource.generation,
        row=manifest.name,
        fields=manifest.to_queue_spec().model_dump(),
        grace=DELETION_GRACE_PERIOD,
        fresh=identity.uid in fresh,
    )


def queue_changes(write: RowWrite) -> dict[str, Any]:
    """The changes of ``set_queue`` that bring the queue to what the object asks for, with its owner."""
    return {**QueueSpec(**write.claim.fields).to_changes(), "owner": write.owner.to_json()}


def queue_end(name: str) -> dict[str, Any]:
    """The changes for a queue whose object is gone: built-in settings and no owner. Its jobs stay.

    One that its object suspended stays so: nothing that a person stopped starts because something was deleted. The next
    object decides again, or ``tidegate queues resume``.
    """
    changes = QueueSpec(name=name).to_changes()
    del changes["suspended"]
    return {**changes, "owner": None}


def describe_queue(manifest: QueueManifest) -> str:
    """Return what is in force, in a few words: ``mail: fair order, suspended``."""
    parts = [f"{manifest.spec.order.lower()} order"]
    if manifest.spec.suspend:
        parts.append("suspended")
    return f"{manifest.name}: {', '.join(parts)}"
