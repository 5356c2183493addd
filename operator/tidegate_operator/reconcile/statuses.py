"""The status of an object: the verdict as conditions, and live numbers. Written only when something of it changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tidegate.model.demands import QueueNumbers
from tidegate.model.durations import format_duration
from tidegate.model.limits import LimitStatus
from tidegate.model.manifests import QueueManifest
from tidegate.model.ownership import Ownership
from tidegate_operator.conditions import Condition, Reason, find, merged, readiness
from tidegate_operator.reconcile.verdicts import Verdict
from tidegate_operator.resources import Resource

OBSERVED_AT = "observedAt"
"""When the rest was last seen to change; it alone is no reason to write."""

QUEUE_NUMBERS = ("running", "runnable", "blocked", "scheduled", "dead", "oldestRunnableAge", "blockedBy")
"""Fields of a Queue's status that come from the database."""

TRANSITIONS = ("Ready", "Stalled", "Reconciling", "ScalingActive", "HeldByHand")
"""Conditions whose change is written at once, and not when there is time for numbers. ``Saturated`` and
``ScalingLimited`` are none: they come and go with the load, of many objects at a time."""


def limit_status(
    resource: Resource, verdict: Verdict, numbers: LimitStatus | None, corrections: int, now: datetime
) -> dict[str, Any]:
    """Return the whole status of a Limit; without numbers those of the last status stay.

    ``corrections`` counts how often this leader put the row back; a higher count in the status stays.
    """
    before = resource.status
    conditions = readiness(verdict.reason, verdict.message)
    status: dict[str, Any] = {"key": resource.row} if resource.row is not None else {}
    if verdict.owner is not None:
        status["owner"] = _shown_owner(verdict.owner)
    elif numbers is not None:
        status |= _limit_numbers(numbers)
        conditions.append(_saturated(numbers))
    else:
        status |= _kept(before, ("running", "waiting", "blocked", "startsInWindow", "startsSummary", "nextStartAt"))
        conditions += _kept_condition(before, "Saturated")
    _show_corrections(status, before, corrections)
    return _finished(status, conditions, resource, verdict, now)


@dataclass(frozen=True)
class Shown:
    """What scaling adds to a Queue's status: the part ``workers`` and conditions."""

    workers: Mapping[str, Any]
    conditions: Sequence[Condition]


def queue_status(
    resource: Resource,
    verdict: Verdict,
    numbers: QueueNumbers | None,
    corrections: int,
    now: datetime,
    *,
    shown: Shown | None = None,
) -> dict[str, Any]:
    """Return the whole status of a Queue; numbers and ``corrections`` as for `limit_status`.

    What scaling shows stays as it was where ``shown`` is None and the object still names a Deployment.
    """
    before = resource.status
    conditions = readiness(verdict.reason, verdict.message)
    status: dict[str, Any] = {}
    if verdict.owner is not None:
        status["owner"] = _shown_owner(verdict.owner)
    elif numbers is not None:
        status |= _queue_numbers(numbers, now)
        conditions.append(_held(numbers))
    else:
        status |= _kept(before, QUEUE_NUMBERS)
        conditions += _kept_condition(before, "HeldByHand")
    names_workers = isinstance(resource.manifest, QueueManifest) and resource.manifest.spec.workers is not None
    if shown is not None and verdict.owner is None:
        status["workers"] = dict(shown.workers)
        conditions += shown.conditions
    elif names_workers and verdict.owner is None:
        status |= _kept(before, ("workers",))
        conditions += [*_kept_condition(before, "ScalingActive"), *_kept_condition(before, "ScalingLimited")]
    _show_corrections(status, before, corrections)
    return _finished(status, conditions, resource, verdict, now)


def is_changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Tell whether a status is worth a write."""
    return {**before, OBSERVED_AT: None} != {**after, OBSERVED_AT: None}


def is_transition(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Tell whether a change must not wait: readiness, its reason, or the generation that the status speaks of."""
    if before.get("observedGeneration") != after.get("observedGeneration"):
        return True
    return any(_mark(before, each) != _mark(after, each) for each in TRANSITIONS)


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch (RFC 7386) that makes ``after`` out of ``before``: null removes a field."""
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            inner = merge_patch(old, value)
            if inner:
                patch[name] = inner
        elif old != value or name not in before:
            patch[name] = value
    return patch


def timestamp(at: datetime) -> str:
    """Write an instant as Kubernetes does, to the second."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def coarse(age: timedelta) -> str:
    """Write an age so that it does not change with every look: steps of 5 s, minutes, hours."""
    seconds = int(age.total_seconds())
    step = 1 if seconds < 5 else 5 if seconds < 60 else 60 if seconds < 3600 else 3600
    return format_duration(timedelta(seconds=seconds - seconds % step))


def _shown_owner(owner: Ownership) -> dict[str, Any]:
    return owner.model_dump(include={"cluster", "namespace", "name", "uid"})


def _show_corrections(status: dict[str, Any], before: Mapping[str, Any], corrections: int) -> None:
    corrections = max(corrections, int(before.get("driftCorrections") or 0))
    if corrections:
        status["driftCorrections"] = corrections


def _finished(
    status: dict[str, Any],
    conditions: Sequence[Condition],
    resource: Resource,
    verdict: Verdict,
    now: datetime,
) -> dict[str, Any]:
    before, at = resource.status, timestamp(now)
    # A generation counts as observed when something was decided about it: `kubectl wait` compares it.
    undecided = verdict.reason in {Reason.PENDING, Reason.DATABASE_UNAVAILABLE, Reason.DATABASE_REFUSED}
    observed = before.get("observedGeneration") if undecided else verdict.generation
    if observed is not None:
        status["observedGeneration"] = observed
    status["conditions"] = merged(conditions, before.get("conditions") or [], verdict.generation, at)
    status[OBSERVED_AT] = at
    return status


def _limit_numbers(numbers: LimitStatus) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "running": max(0, numbers.running),
        "waiting": max(0, numbers.waiting),
        "blocked": max(0, numbers.blocked),
    }
    if numbers.max_starts is not None:
        fields |= {"startsInWindow": numbers.starts, "startsSummary": f"{numbers.starts}/{numbers.max_starts}"}
        # where a start is free, the view answers "now", which is another instant at every look
        if numbers.starts >= numbers.max_starts and numbers.next_start_at is not None:
            fields["nextStartAt"] = timestamp(numbers.next_start_at)
    return fields


def _queue_numbers(numbers: QueueNumbers, now: datetime) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "running": max(0, numbers.running),
        "runnable": max(0, numbers.runnable),
        "blocked": max(0, numbers.blocked),
        "scheduled": max(0, numbers.scheduled),
        "dead": max(0, numbers.dead),
    }
    if numbers.runnable > 0 and numbers.runnable_since is not None:
        fields["oldestRunnableAge"] = coarse(max(timedelta(0), now - numbers.runnable_since))
    if numbers.blocked_by:
        fields["blockedBy"] = [{name: each[name] for name in ("key", "jobs", "by")} for each in numbers.blocked_by]
    return fields


def _saturated(numbers: LimitStatus) -> Condition:
    if numbers.max_running is not None and numbers.running >= numbers.max_running:
        message = f"{numbers.running} of {numbers.max_running} running, {numbers.blocked} jobs held back"
        return Condition("Saturated", "True", "MaxRunning", message)
    if numbers.max_starts is not None and numbers.starts >= numbers.max_starts:
        message = f"{numbers.starts} of {numbers.max_starts} starts used, {numbers.blocked} jobs held back"
        return Condition("Saturated", "True", "Rate", message)
    return Condition("Saturated", "False", "Free", "another job of this key may start")


def _held(numbers: QueueNumbers) -> Condition:
    if numbers.held_by_hand:
        return Condition(
            "HeldByHand",
            "True",
            "Suspended",
            f"tidegate queues suspend holds this queue; end it with: tidegate queues resume {numbers.name}",
        )
    return Condition("HeldByHand", "False", "Free", "nobody holds this queue by hand")


def _kept(before: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: before[name] for name in names if name in before}


def _kept_condition(before: Mapping[str, Any], type_: str) -> list[Condition]:
    old = find(before, type_)
    return [Condition(type_, old["status"], old["reason"], old["message"])] if old else []


def _mark(status: Mapping[str, Any], type_: str) -> tuple[object, object]:
    condition = find(status, type_)
    return condition.get("status"), condition.get("reason")
