"""Pods as the API server shows them, as scaling takes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from kubernetes.aio import client

from tidegate_operator.cluster.deployments import read_pod
from tidegate_operator.reconcile.scaling_observations import STUCK_AFTER, Crew

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def seconds_ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def shown(*conditions: client.V1PodCondition, age: float = 86_400.0) -> client.V1Pod:
    metadata = client.V1ObjectMeta(name="w1", creation_timestamp=seconds_ago(age), labels={"pod-template-hash": "v1"})
    return client.V1Pod(metadata=metadata, status=client.V1PodStatus(conditions=[*conditions] or None))


def ready(status: str, seconds: float | None) -> client.V1PodCondition:
    since = None if seconds is None else seconds_ago(seconds)
    return client.V1PodCondition(type="Ready", status=status, last_transition_time=since)


@pytest.mark.parametrize(
    ("pod", "is_ready", "unready", "stuck"),
    [
        (shown(ready("True", 80_000.0)), True, 0.0, False),
        (shown(ready("False", 5.0)), False, 5.0, False),
        (shown(ready("Unknown", 5.0)), False, 5.0, False),
        (shown(ready("False", STUCK_AFTER)), False, STUCK_AFTER, True),
        (shown(ready("False", None), age=3.0), False, 3.0, False),
        (shown(age=STUCK_AFTER - 1), False, STUCK_AFTER - 1, False),
        (shown(age=STUCK_AFTER), False, STUCK_AFTER, True),
        (shown(ready("False", -2.0)), False, 0.0, False),
    ],
    ids=["ready", "for a moment", "its node is away", "long", "new", "pending", "never scheduled", "clocks differ"],
)
def test_a_pod_is_stuck_by_the_time_it_is_unready_and_not_by_its_age(
    pod: client.V1Pod, is_ready: bool, unready: float, stuck: bool
) -> None:
    found = read_pod(pod, NOW)
    assert (found.ready, found.unready, found.template) == (is_ready, unready, "v1")
    assert Crew(found, ()).stuck is stuck
