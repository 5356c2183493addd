"""What an object is shown: conditions as kstatus reads them, numbers, and what is worth a write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.operator_objects import limit, queue
from tidegate.model.demands import QueueNumbers
from tidegate.model.limits import LimitStatus
from tidegate.model.object_statuses import LimitStatusPart, QueueStatusPart
from tidegate.model.ownership import Ownership
from tidegate_operator.conditions import STALLED, Condition, Reason, find
from tidegate_operator.reconcile.statuses import (
    Shown,
    coarse,
    is_changed,
    is_transition,
    limit_status,
    merge_patch,
    queue_status,
)
from tidegate_operator.reconcile.verdicts import Verdict

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(seconds=90)
OWNER = Ownership(cluster="c1", namespace="other", name="theirs", uid="u9")
BUSY = LimitStatus(key="vendor-x", max_running=4, running=4, waiting=126, blocked=126)
FREE = LimitStatus(key="vendor-x", max_running=4, running=1, waiting=0)
RATED = LimitStatus(
    key="vendor-x", max_starts=100, window=timedelta(minutes=1), starts=100, waiting=3, blocked=3, next_start_at=LATER
)


def verdict(reason: Reason = Reason.IN_FORCE, owner: Ownership | None = None, generation: int = 1) -> Verdict:
    return Verdict(reason, "because", generation, owner)


@pytest.mark.parametrize("reason", list(Reason))
@pytest.mark.parametrize("numbers", [BUSY, FREE, RATED, None], ids=["busy", "free", "rated", "none"])
def test_the_status_of_a_limit_is_one_that_the_definition_knows(reason: Reason, numbers: LimitStatus | None) -> None:
    owner = OWNER if reason is Reason.KEY_CONFLICT else None
    status = limit_status(limit(), verdict(reason, owner), numbers, 2, NOW)
    LimitStatusPart.model_validate(status)


@pytest.mark.parametrize("reason", list(Reason))
def test_the_status_of_a_queue_is_one_that_the_definition_knows(reason: Reason) -> None:
    owner = OWNER if reason is Reason.QUEUE_CONFLICT else None
    numbers = QueueNumbers(name="mail", running=-1, held_by_hand=True)
    QueueStatusPart.model_validate(queue_status(queue(), verdict(reason, owner), numbers, 0, NOW))


@pytest.mark.parametrize("reason", list(Reason))
def test_an_object_is_ready_reconciling_or_stalled(reason: Reason) -> None:
    status = limit_status(limit(), verdict(reason), None, 0, NOW)
    said = {type_: find(status, type_)["status"] for type_ in ("Ready", "Reconciling", "Stalled")}
    assert list(said.values()).count("True") == 1
    assert (said["Ready"] == "True") == (reason is Reason.IN_FORCE)
    assert (said["Stalled"] == "True") == (reason in STALLED)
    assert all(find(status, type_)["message"] for type_ in said)


@pytest.mark.parametrize("reason", [Reason.PENDING, Reason.DATABASE_UNAVAILABLE, Reason.DATABASE_REFUSED])
def test_a_generation_that_nothing_was_decided_about_is_not_observed(reason: Reason) -> None:
    fresh = limit_status(limit(generation=3), verdict(reason, generation=3), None, 0, NOW)
    assert "observedGeneration" not in fresh
    known = limit(generation=3, status={"observedGeneration": 2})
    assert limit_status(known, verdict(reason, generation=3), None, 0, NOW)["observedGeneration"] == 2


def test_a_transition_time_moves_with_the_status_alone() -> None:
    first = limit_status(limit(), verdict(Reason.PENDING), None, 0, NOW)
    second = limit_status(limit(status=first), verdict(Reason.DATABASE_UNAVAILABLE), None, 0, LATER)
    assert find(second, "Ready")["lastTransitionTime"] == find(first, "Ready")["lastTransitionTime"]
    assert find(second, "Ready")["reason"] == "DatabaseUnavailable"
    third = limit_status(limit(status=second), verdict(), None, 0, LATER)
    assert find(third, "Ready")["lastTransitionTime"] == "2026-01-01T12:01:30Z"


def test_numbers_of_a_saturated_limit() -> None:
    status = limit_status(limit(), verdict(), BUSY, 0, NOW)
    assert (status["running"], status["waiting"], status["blocked"]) == (4, 126, 126)
    assert find(status, "Saturated")["reason"] == "MaxRunning"
    assert "4 of 4 running, 126 jobs held back" in find(status, "Saturated")["message"]
    rated = limit_status(limit(), verdict(), RATED, 0, NOW)
    assert (rated["startsSummary"], rated["nextStartAt"]) == ("100/100", "2026-01-01T12:01:30Z")
    assert find(rated, "Saturated")["reason"] == "Rate"
    assert find(limit_status(limit(), verdict(), FREE, 0, NOW), "Saturated")["status"] == "False"


def test_numbers_stay_while_the_database_is_away() -> None:
    before = limit_status(limit(), verdict(), RATED, 1, NOW)
    away = limit_status(limit(status=before), verdict(Reason.DATABASE_UNAVAILABLE), None, 0, LATER)
    kept = ("startsSummary", "startsInWindow", "nextStartAt", "waiting", "blocked", "driftCorrections", "key")
    assert {name: away[name] for name in kept} == {name: before[name] for name in kept}
    assert find(away, "Saturated") == find(before, "Saturated")


def test_under_a_conflict_the_owner_is_shown_and_no_numbers() -> None:
    status = limit_status(limit(), verdict(Reason.KEY_CONFLICT, OWNER), BUSY, 0, NOW)
    assert status["owner"] == {"cluster": "c1", "namespace": "other", "name": "theirs", "uid": "u9"}
    assert "running" not in status
    assert not find(status, "Saturated")


def test_held_by_hand_is_said_with_the_command_that_ends_it() -> None:
    status = queue_status(queue(), verdict(), QueueNumbers(name="mail", held_by_hand=True), 0, NOW)
    assert find(status, "HeldByHand")["status"] == "True"
    assert "tidegate queues resume mail" in find(status, "HeldByHand")["message"]


def test_the_time_of_the_look_alone_is_no_reason_to_write() -> None:
    first = limit_status(limit(), verdict(), FREE, 0, NOW)
    again = limit_status(limit(status=first), verdict(), FREE, 0, LATER)
    assert again["observedAt"] != first["observedAt"]
    assert not is_changed(first, again)
    assert is_changed(first, limit_status(limit(status=first), verdict(), BUSY, 0, LATER))


@pytest.mark.parametrize(
    ("before", "after", "urgent"),
    [
        pytest.param((Reason.IN_FORCE, FREE, 1), (Reason.IN_FORCE, BUSY, 1), False, id="numbers"),
        pytest.param((Reason.IN_FORCE, FREE, 1), (Reason.KEY_CONFLICT, FREE, 1), True, id="readiness"),
        pytest.param((Reason.PENDING, FREE, 1), (Reason.DATABASE_UNAVAILABLE, FREE, 1), True, id="reason"),
        pytest.param((Reason.IN_FORCE, FREE, 1), (Reason.IN_FORCE, FREE, 2), True, id="generation"),
    ],
)
def test_what_must_not_wait(before: Any, after: Any, urgent: bool) -> None:
    def shown(reason: Reason, numbers: LimitStatus, generation: int) -> dict[str, Any]:
        return limit_status(limit(generation=generation), verdict(reason, None, generation), numbers, 0, NOW)

    assert is_transition(shown(*before), shown(*after)) == urgent
    assert is_transition({}, shown(*after))


def test_what_a_person_did_to_a_queue_or_has_to_do_waits_behind_no_numbers() -> None:
    def shown(reason: str, *, held: bool = False, running: int = 0, limited: str = "False") -> dict[str, Any]:
        conditions = [Condition("ScalingActive", str(reason == "ByDemand"), reason, f"{running} running")]
        conditions.append(Condition("ScalingLimited", limited, "AtMaximum", "the load would fill more"))
        numbers = QueueNumbers("mail", running=running, held_by_hand=held)
        return queue_status(queue(), verdict(), numbers, 0, NOW, shown=Shown({}, conditions))

    before = shown("ByDemand")
    assert is_transition(before, shown("OtherAutoscaler"))
    assert is_transition(before, shown("DatabaseUnavailable"))
    assert is_transition(before, shown("ByDemand", held=True))
    assert not is_transition(before, shown("ByDemand", running=9, limited="True"))


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({}, {"a": 1}, {"a": 1}),
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1, "b": 2}, {"b": 3}, {"a": None, "b": 3}),
        ({"o": {"x": 1, "y": 2}}, {"o": {"x": 1}}, {"o": {"y": None}}),
        ({"o": {"x": 1}}, {"o": {"x": 1}}, {}),
        ({"l": [1, 2]}, {"l": [2]}, {"l": [2]}),
        ({"o": {"x": 1}}, {"o": 5}, {"o": 5}),
        ({}, {"a": None}, {"a": None}),
    ],
)
def test_merge_patches(before: dict[str, Any], after: dict[str, Any], patch: dict[str, Any]) -> None:
    assert merge_patch(before, after) == patch


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (4.9, "4s"), (9, "5s"), (59, "55s"), (61, "1m"), (3_599, "59m"), (7_250, "2h"), (90_000, "25h")],
)
def test_ages_are_coarse(seconds: float, text: str) -> None:
    assert coarse(timedelta(seconds=seconds)) == text
