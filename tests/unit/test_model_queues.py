"""Queues and workers as a person sees them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from pydantic import ValidationError

from tidegate.model.queues import QueueOrder, QueueSpec, QueueStatus
from tidegate.model.statuses import WorkerStatus

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "parts",
    [
        {"name": ""},
        {"order": "Fair"},
        {"default_priority": 32_768},
        {"default_priority": True},
        {"default_max_attempts": 0},
        {"default_timeout": timedelta(0)},
        {"default_timeout": timedelta(seconds=-1)},
        {"keep_succeeded": timedelta(seconds=-1)},
        {"keep_dead": timedelta(microseconds=-1)},
        {"held_by_hand": True},
    ],
    ids=str,
)
def test_a_spec_that_breaks_a_rule_cannot_be_built(parts: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        QueueSpec(**{"name": "mail", **parts})


def test_the_json_of_a_spec_names_every_part_in_seconds() -> None:
    spec = QueueSpec(
        name="mail",
        order=QueueOrder.FAIR,
        suspended=True,
        default_priority=3,
        default_max_attempts=1,
        default_timeout=timedelta(milliseconds=1500),
        keep_succeeded=timedelta(0),
        keep_dead=timedelta(days=14),
    )
    assert spec.to_changes() == {
        "order": "fair",
        "suspended": True,
        "default_priority": 3,
        "default_max_attempts": 1,
        "default_timeout": 1.5,
        "keep_succeeded": 0,
        "keep_dead": 1_209_600,
    }


def test_a_status_is_read_from_a_row_of_the_view() -> None:
    row = {
        "name": "mail",
        "declared_order": "fair",
        "suspended": False,
        "held_by_hand": False,
        "ready": 3,
        "running": 2,
        "scheduled": 1,
        "dead": 4,
        "workers": 5,
        "owner": {"namespace": "team-a", "name": "mail"},
    }
    status = QueueStatus.model_validate(row)
    assert status.order is QueueOrder.FAIR
    assert (status.ready, status.running, status.scheduled, status.dead, status.workers) == (3, 2, 1, 4, 5)
    assert status.owner is not None
    assert status.owner.name == "mail"
    assert status.model_dump(mode="json")["order"] == "fair"


def test_a_worker_is_read_from_its_row() -> None:
    row = {
        "id": UUID(int=1),
        "name": "host-1",
        "queues": ["mail"],
        "actors": ["send"],
        "slots": 8,
        "fair": None,
        "version": "0.1.0",
        "namespace": None,
        "pod": None,
        "lease": timedelta(seconds=30),
        "started_at": NOW,
        "seen_at": NOW,
        "contact_since": NOW,
        "draining_at": None,
        "alive": True,
        "epoch": 1,
    }
    status = WorkerStatus.model_validate(row)
    shown = status.model_dump(mode="json")
    assert (shown["id"], shown["lease"], shown["seen_at"]) == (
        "00000000-0000-0000-0000-000000000001",
        "30s",
        "2026-01-01T00:00:00Z",
    )
