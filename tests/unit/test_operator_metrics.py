"""What Prometheus is told: no more time series than there may be, whatever users call their keys."""

from __future__ import annotations

from tidegate.model.demands import QueueNumbers
from tidegate.model.limits import LimitStatus
from tidegate_operator.metrics import MOST_LABELS, OTHER, Metrics


def lines(metrics: Metrics, name: str) -> dict[str, float]:
    shown = metrics.text().decode().splitlines()
    return {line.split(" ")[0]: float(line.split(" ")[1]) for line in shown if line.startswith(f"{name}{{")}


def test_numbers_of_queues_are_shown() -> None:
    metrics = Metrics()
    metrics.show_queues({"mail": QueueNumbers("mail", running=1, runnable=2, blocked=3)})
    assert lines(metrics, "tidegate_queue_runnable") == {'tidegate_queue_runnable{queue="mail"}': 2.0}
    metrics.hide()
    assert lines(metrics, "tidegate_queue_runnable") == {}


def test_the_least_busy_keys_come_together() -> None:
    metrics = Metrics()
    busy = {f"k{number:03}": LimitStatus(key=f"k{number:03}", waiting=1_000 - number) for number in range(300)}
    metrics.show_limits(busy)
    shown = lines(metrics, "tidegate_limit_waiting")
    assert len(shown) == MOST_LABELS + 1
    assert shown['tidegate_limit_waiting{key="k000"}'] == 1_000
    assert shown[f'tidegate_limit_waiting{{key="{OTHER}"}}'] == sum(1_000 - number for number in range(100, 300))
