"""A worker's figures for Prometheus. Labels are what the app declares: queues, pools, policies; never a job's key."""

from collections.abc import Iterator
from dataclasses import asdict

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidegate.runtime.vitals import Sample, Vitals

_PREFIX = "tidegate_worker_"


class WorkerCollector(Collector):
    """Makes metrics of a sample whenever somebody asks."""

    def __init__(self, vitals: Vitals) -> None:
        self._vitals = vitals

    def collect(self) -> Iterator[Metric]:
        """Yield every metric; see the help text of each."""
        sample = self._vitals.sample()
        blocked = self._vitals.blocked
        yield _gauge("healthy", "1 while the worker does its work", float(not self._vitals.problems()))
        yield _gauge(
            "loop_blocked_seconds",
            "how long the event loop has not turned; 0 while it does",
            0.0 if blocked is None else blocked.seconds,
        )
        yield from _jobs(sample)
        yield from _pools(sample)
        yield from _intake(sample)


def _jobs(sample: Sample) -> Iterator[Metric]:
    jobs = CounterMetricFamily(f"{_PREFIX}jobs", "jobs by what happened to them here", labels=["outcome"])
    for outcome, count in asdict(sample.counts).items():
        jobs.add_metric([outcome], count)
    yield jobs
    yield _gauge("held_messages", "messages whose outcome is not acknowledged", sample.held)
    yield _gauge("running_messages", "messages whose code runs", sample.running)
    yield _gauge("waiting_messages", "messages that wait to run, for capacity or a large payload", sample.waiting)
    waits = GaugeMetricFamily(f"{_PREFIX}waits", "messages that wait, by what for", labels=["queue", "cause"])
    for wait in sample.waits:
        waits.add_metric([wait.channel, wait.cause], wait.messages)
    yield waits


def _pools(sample: Sample) -> Iterator[Metric]:
    messages = GaugeMetricFamily(f"{_PREFIX}pool_messages", "messages in a pool", labels=["pool"])
    most_messages = GaugeMetricFamily(f"{_PREFIX}pool_max_messages", "messages that a pool lets in", labels=["pool"])
    size = GaugeMetricFamily(f"{_PREFIX}pool_bytes", "bytes of payloads in a pool", labels=["pool"])
    most_bytes = GaugeMetricFamily(f"{_PREFIX}pool_max_bytes", "bytes of payloads that a pool lets in", labels=["pool"])
    for pool in sample.pools:
        messages.add_metric([pool.name], pool.messages)
        size.add_metric([pool.name], pool.bytes)
        if pool.max_messages is not None:
            most_messages.add_metric([pool.name], pool.max_messages)
        if pool.max_bytes is not None:
            most_bytes.add_metric([pool.name], pool.max_bytes)
    yield from (messages, most_messages, size, most_bytes)


def _intake(sample: Sample) -> Iterator[Metric]:
    pauses = CounterMetricFamily(
        f"{_PREFIX}backpressure_pauses", "times that backpressure held intake back", labels=["strategy", "queue"]
    )
    for (strategy, queue), count in sample.pauses.items():
        pauses.add_metric([strategy, queue], count)
    yield pauses
    paused = GaugeMetricFamily(
        f"{_PREFIX}intake_paused",
        "1 while a queue is held back, by hand or for backpressure",
        labels=["queue"],
    )
    for queue, reasons in sample.closed.items():
        paused.add_metric([queue], float(bool(reasons)))
    yield paused
    full = CounterMetricFamily(
        f"{_PREFIX}intake_full", "times that there was no room for a message of a queue", labels=["queue"]
    )
    for queue, count in sample.closings.items():
        full.add_metric([queue], count)
    yield full


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"{_PREFIX}{name}", text, value=value)
