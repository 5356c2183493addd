"""Conditions as kstatus reads them: ``Ready``, with ``Reconciling`` and ``Stalled`` true only while they hold.

Argo CD, Flux and ``kubectl wait`` judge an object by these. A reason is a word that scripts may compare and that
docs/kubernetes.md lists; a message is a sentence for people.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

MAX_MESSAGE = 1_024
"""Most characters of a message that we write; the schema would take more."""


class Reason(StrEnum):
    """Why an object is ready or not."""

    IN_FORCE = "InForce"
    """The database holds what the object asks for."""
    PENDING = "Pending"
    """Seen, and not written yet."""
    KEY_CONFLICT = "KeyConflict"
    """Another object owns the key."""
    QUEUE_CONFLICT = "QueueConflict"
    """Another object owns the queue."""
    KEY_NOT_ALLOWED = "KeyNotAllowed"
    """The operator's key patterns keep the key from this namespace."""
    INVALID = "Invalid"
    """This release of the operator cannot read the object."""
    DATABASE_UNAVAILABLE = "DatabaseUnavailable"
    """Postgres does not answer."""
    DATABASE_REFUSED = "DatabaseRefused"
    """Postgres answers and refuses, for example for want of a right."""


STALLED = frozenset({Reason.KEY_CONFLICT, Reason.QUEUE_CONFLICT, Reason.KEY_NOT_ALLOWED, Reason.INVALID})
"""Reasons that only a person can end."""


@dataclass(frozen=True)
class Condition:
    """One condition to show; ``status`` is ``True``, ``False`` or ``Unknown``."""

    type: str
    status: str
    reason: str
    message: str


def readiness(reason: Reason, message: str) -> list[Condition]:
    """Return the three conditions of kstatus for one reason."""
    if reason is Reason.IN_FORCE:
        ready, word = "True", "is in force"
    elif reason in STALLED:
        ready, word = "False", "waits for a change by hand"
    else:
        ready, word = "False", "is tried again"
    stalled, reconciling = reason in STALLED, ready == "False" and reason not in STALLED
    return [
        Condition("Ready", ready, reason, message),
        Condition("Reconciling", str(reconciling), reason, f"the object {word}"),
        Condition("Stalled", str(stalled), reason, f"the object {word}"),
    ]


def merged(
    wanted: Sequence[Condition], before: Sequence[Mapping[str, Any]], generation: int, now: str
) -> list[dict[str, Any]]:
    """Return the conditions as the status holds them; ``lastTransitionTime`` moves only with the condition's status."""
    known = {str(each.get("type")): each for each in before}
    conditions = []
    for each in wanted:
        old = known.get(each.type, {})
        stays = old.get("status") == each.status and old.get("lastTransitionTime")
        conditions.append(
            {
                "type": each.type,
                "status": each.status,
                "reason": each.reason,
                "message": each.message[:MAX_MESSAGE],
                "observedGeneration": generation,
                "lastTransitionTime": old["lastTransitionTime"] if stays else now,
            }
        )
    return conditions


def find(status: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    """Return the condition of this type in a status, an empty mapping where there is none."""
    return next((each for each in status.get("conditions") or [] if each.get("type") == type_), {})
