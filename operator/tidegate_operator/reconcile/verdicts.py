"""What each object about a row is to hear: one verdict, whatever was decided and whatever became of the write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidegate.model.manifests import LimitManifest, QueueManifest
from tidegate.model.ownership import Outcome, Ownership
from tidegate_operator.conditions import Reason
from tidegate_operator.reconcile.limits import describe_limit
from tidegate_operator.reconcile.ownership import Cause, Decision
from tidegate_operator.reconcile.patterns import KeyPatterns
from tidegate_operator.reconcile.queues import describe_queue
from tidegate_operator.resources import Kind, Resource


@dataclass(frozen=True)
class Verdict:
    """How an object stands. ``owner`` is who keeps it from its row; ``generation`` the one that this is about."""

    reason: Reason
    message: str
    generation: int
    owner: Ownership | None = None


@dataclass(frozen=True)
class Notice:
    """Something that happened once, for an Event on the object; ``warning`` where a person may have to act."""

    uid: str
    reason: str
    message: str
    warning: bool = False


def unreadable(resource: Resource) -> Verdict:
    """The verdict on an object that this release cannot read."""
    return Verdict(Reason.INVALID, f"this operator cannot read the object: {resource.problem}", resource.generation)


def verdicts(
    decision: Decision, outcome: Outcome | None, objects: Mapping[str, Resource], patterns: KeyPatterns
) -> dict[str, Verdict]:
    """Return the verdict on each object that the decision is about; ``outcome`` is that of its write."""
    found = {uid: _in_force(objects[uid]) for uid in decision.settled}
    for uid in decision.stale:
        found[uid] = _pending(objects[uid], "a later version of this object stands in the database; it is read again")
    for uid in decision.refused:
        resource = objects[uid]
        sentence = patterns.explain(resource.identity.namespace, decision.row)
        found[uid] = Verdict(Reason.KEY_NOT_ALLOWED, sentence, resource.generation)
    for uid, owner in decision.conflicts.items():
        found[uid] = _conflict(objects[uid], owner)
    if decision.write is not None:
        uid = decision.write.claim.uid
        written = outcome is Outcome.WRITTEN
        found[uid] = _in_force(objects[uid]) if written else _pending(objects[uid], _WAITING)
    return found


_WAITING = "somebody else holds the row in the database; it is tried again"


def notices(decision: Decision) -> Iterable[Notice]:
    """Return what is worth an Event once the decision's write is done."""
    write = decision.write
    if write is None:
        return
    uid, row = write.claim.uid, decision.row
    if write.cause is Cause.ADOPTED:
        yield Notice(uid, "Adopted", f"{row} was set by hand; from here on this object decides about it")
    elif write.cause is Cause.REPLACED:
        yield Notice(uid, "TookOver", f"{row} was written by an object of the same name that is gone")
    elif write.cause is Cause.SUCCEEDED and write.expected is not None:
        before = f"{write.expected.namespace}/{write.expected.name}"
        yield Notice(uid, "Succeeded", f"{row} belonged to {before}, which no longer holds it")
    elif write.cause is Cause.DRIFTED:
        fields = ", ".join(f"{name} was {found}" for name, (found, _) in sorted(write.drifted.items()))
        yield Notice(uid, "DriftCorrected", f"{row} was changed by hand and is put back: {fields}", warning=True)


def _in_force(resource: Resource) -> Verdict:
    return Verdict(Reason.IN_FORCE, _described(resource), resource.generation)


def _described(resource: Resource) -> str:
    manifest = resource.manifest
    if isinstance(manifest, LimitManifest):
        return describe_limit(manifest)
    return describe_queue(manifest) if isinstance(manifest, QueueManifest) else ""


def _pending(resource: Resource, message: str) -> Verdict:
    return Verdict(Reason.PENDING, message, resource.generation)


def _conflict(resource: Resource, owner: Ownership) -> Verdict:
    kind, limit = resource.identity.kind, resource.identity.kind is Kind.LIMIT
    row = f"{'limit key' if limit else 'queue'} {resource.row}"
    if owner.uid == resource.identity.uid:
        message = (
            f"{row} belongs to this very object, under the cluster id {owner.cluster}; where the operator's clusterId"
            " was changed, name the earlier one in its formerClusterIds"
        )
    else:
        message = (
            f"{row} belongs to the {kind} object {owner.namespace}/{owner.name} of cluster {owner.cluster}; delete one"
            f" of the two, or give this one another {'spec.key' if limit else 'spec.name'}"
        )
    reason = Reason.KEY_CONFLICT if limit else Reason.QUEUE_CONFLICT
    return Verdict(reason, message, resource.generation, owner)
