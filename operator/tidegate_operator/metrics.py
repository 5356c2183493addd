"""What Prometheus is told of the operator itself and of limits and queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from tidegate.model.demands import QueueNumbers
from tidegate.model.limits import LimitStatus

MOST_LABELS: Final = 100
"""Keys, and queues, that have a time series of their own: their names come from users, and there may be any number."""

OTHER: Final = "(other)"
"""Label of all the rest together."""


class Metrics:
    """The operator's metrics, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.leads = Gauge("tidegate_operator_leads", "1 while this process leads.", registry=self.registry)
        self.database_up = Gauge(
            "tidegate_operator_database_up", "1 while the database answers.", registry=self.registry
        )
        self.listening = Gauge(
            "tidegate_operator_listening", "1 while the leader hears notifications.", registry=self.registry
        )
        self.unwatched = Gauge(
            "tidegate_operator_namespace_unwatched",
            "1 while the objects of a namespace may not be read.",
            ["watched"],
            registry=self.registry,
        )
        self.objects = Gauge("tidegate_operator_objects", "Objects that are known.", ["kind"], registry=self.registry)
        self.not_ready = Gauge(
            "tidegate_operator_not_ready", "Objects by why not ready.", ["kind", "reason"], registry=self.registry
        )
        self.passes = Histogram(
            "tidegate_operator_pass_seconds", "Time of one pass of the reconciler.", registry=self.registry
        )
        self.failures = Counter(
            "tidegate_operator_failures", "Failures, by what failed.", ["what"], registry=self.registry
        )
        self.rows = Counter(
            "tidegate_operator_rows_written", "Rows written, by cause.", ["kind", "cause"], registry=self.registry
        )
        self.swept = Counter(
            "tidegate_operator_rows_swept", "Rows given up, their objects gone.", ["kind"], registry=self.registry
        )
        self.statuses = Counter(
            "tidegate_operator_status_writes", "Status writes.", ["outcome"], registry=self.registry
        )
        self.events = Counter(
            "tidegate_operator_events", "Events created or dropped.", ["outcome"], registry=self.registry
        )
        self.scalings = Counter("tidegate_operator_scalings", "Replicas written.", registry=self.registry)
        self.limits = [
            Gauge(f"tidegate_limit_{what}", f"Jobs of the limit's key: {what}.", ["key"], registry=self.registry)
            for what in ("running", "waiting", "blocked")
        ]
        self.queues = [
            Gauge(f"tidegate_queue_{what}", f"Jobs of the queue: {what}.", ["queue"], registry=self.registry)
            for what in ("running", "runnable", "blocked")
        ]
        self.lists = Counter("tidegate_operator_lists", "Full lists of objects.", registry=self.registry)

    def show_limits(self, numbers: Mapping[str, LimitStatus]) -> None:
        """Show the live numbers of limits; the keys with least to do come together under `OTHER`."""
        _show(self.limits, {key: (each.running, each.waiting, each.blocked) for key, each in numbers.items()})

    def show_queues(self, numbers: Mapping[str, QueueNumbers]) -> None:
        """Show the live numbers of queues, ``runnable`` for scalers that are not ours."""
        _show(self.queues, {name: (each.running, each.runnable, each.blocked) for name, each in numbers.items()})

    def hide(self) -> None:
        """Show nothing that only the leader knows: another process leads, and two must not be added up."""
        self.show_limits({})
        self.show_queues({})
        self.database_up.set(0)
        self.listening.set(0)
        self.objects.clear()
        self.not_ready.clear()

    def text(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self.registry)


def _show(gauges: Sequence[Gauge], numbers: Mapping[str, tuple[int, ...]]) -> None:
    ordered = sorted(numbers.items(), key=lambda each: (-sum(each[1]), each[0]))
    for column, gauge in enumerate(gauges):
        gauge.clear()
        for name, values in ordered[:MOST_LABELS]:
            gauge.labels(name).set(values[column])
        if len(ordered) > MOST_LABELS:
            gauge.labels(OTHER).set(sum(values[column] for _, values in ordered[MOST_LABELS:]))
