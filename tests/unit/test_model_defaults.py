"""Defaults: each is legal by its own bounds, and the times are in an order that keeps leases safe."""

from __future__ import annotations

from datetime import timedelta

from tidegate.model import defaults
from tidegate.model.jobs import JobOptions
from tidegate.model.limits import LimitChange


def test_defaults_are_legal_by_their_own_bounds() -> None:
    JobOptions(priority=defaults.PRIORITY, max_attempts=defaults.MAX_ATTEMPTS)
    JobOptions(priority=defaults.MIN_PRIORITY, max_attempts=defaults.MAX_MAX_ATTEMPTS)
    LimitChange("k", max_running=defaults.MAX_LIMIT, weight=defaults.WEIGHT)
    LimitChange("k", max_starts=defaults.MAX_LIMIT, window=defaults.MAX_WINDOW, weight=defaults.MAX_WEIGHT)
    assert 1 <= defaults.SLOTS <= defaults.MAX_SLOTS
    assert defaults.MIN_REPLICAS <= defaults.MAX_REPLICAS <= defaults.MAX_SLOTS


def test_a_worker_ends_its_jobs_before_its_lease_ends() -> None:
    # several heartbeats may fail before the fence, and the fence leaves time to cancel before others may rescue
    assert 4 * defaults.HEARTBEAT <= defaults.SELF_FENCE
    assert defaults.SELF_FENCE + defaults.HEARTBEAT <= defaults.LEASE


def test_the_backoff_doubles_up_to_its_end() -> None:
    assert timedelta(0) < defaults.BACKOFF_FIRST < defaults.BACKOFF_MAX
