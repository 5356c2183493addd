"""The settings of one worker, checked when they are made."""

import os
import socket
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, version

from tidegate.errors import ConfigurationError
from tidegate.model import defaults
from tidegate.model.addresses import parse_address
from tidegate.model.durations import MAX_DURATION, format_duration
from tidegate.model.fields import in_seconds
from tidegate.model.names import check_name


def _release() -> str:
    try:
        return version("tidegate")
    except PackageNotFoundError:
        return "unknown"


def _default_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


MIN_LEASE = timedelta(seconds=1)
"""Shortest lease: a sixth of it must be enough for a heartbeat on a busy machine."""

MAX_LEASE = timedelta(hours=24)
"""Longest lease: what a dead worker held stays with it for as long."""

MIN_SPAN = timedelta(milliseconds=10)
"""Shortest time between two calls of one kind; less would be a hot loop."""

_FOR_PEOPLE = ("name", "version", "namespace", "pod")
_OPTIONAL = ("heartbeat", "fence", "namespace", "pod")
_SPANS = {
    "lease": (MIN_LEASE, MAX_LEASE),
    "heartbeat": (MIN_SPAN, MAX_LEASE),
    "fence": (MIN_SPAN, MAX_LEASE),
    "poll": (MIN_SPAN, MAX_DURATION),
    "grace": (timedelta(0), MAX_DURATION),
    "stall_limit": (MIN_LEASE, MAX_DURATION),
    "maintenance": (MIN_SPAN, MAX_DURATION),
}


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """What one worker process does, and how patiently. All spans are ``timedelta``.

    Attributes:
        queues: the queues it claims from.
        fair: True or False decides the claim's order, None follows each queue's declared order.
        name: shown to people; the host's name and the process id unless given.
        lease: its right to its jobs after a good heartbeat, by the database's clock; 1 s to 24 h.
        heartbeat: time between heartbeats; a sixth of the lease unless given.
        fence: after the start of its last good heartbeat it stops its own jobs; five sixths of the lease unless given.
        poll: longest wait of an idle worker between two looks at its queues.
        grace: time that running jobs get after the first signal, and a timed-out job to stop.
        stall_limit: an event loop that stands still for this long ends the process.
        maintenance: time between two calls of ``tidegate.maintain``.
        version: release shown in ``tidegate.workers``.
        namespace: Kubernetes namespace of the pod, where there is one.
        pod: name of the pod, where there is one.
        health_address: where ``/healthz``, ``/readyz`` and ``/metrics`` are answered, as ``HOST:PORT``; nowhere unless
            given. A worker that has one and is asked to drain by the database stays, empty and not ready, until it is
            stopped; one that has none ends.
        signals: SIGTERM and SIGINT stop the worker while it runs, where it runs in the main thread.

    Raises:
        ConfigurationError: a setting is out of bounds or of the wrong type; the message names it.
        InvalidName: a queue's name, or a text shown to people, breaks the rule of names.
    """

    queues: tuple[str, ...]
    fair: bool | None = None
    name: str = field(default_factory=_default_name)
    lease: timedelta = defaults.LEASE
    heartbeat: timedelta | None = None
    fence: timedelta | None = None
    poll: timedelta = defaults.POLL
    grace: timedelta = defaults.GRACE
    stall_limit: timedelta = defaults.LOOP_STALL_LIMIT
    maintenance: timedelta = timedelta(seconds=15)
    version: str = field(default_factory=_release)
    namespace: str | None = None
    pod: str | None = None
    health_address: str | None = None
    signals: bool = True

    def __post_init__(self) -> None:
        self._check_types()
        for field_name, bounds in _SPANS.items():
            value = getattr(self, field_name)
            if value is not None or field_name not in _OPTIONAL:
                _check_span(value, field_name, *bounds)
        if self.fence_after >= self.lease:
            raise ConfigurationError(
                f"fence must be shorter than lease; got fence {self.fence_after}, lease {self.lease}"
            )
        if self.heartbeat_every >= self.fence_after:
            raise ConfigurationError(
                f"heartbeat must be shorter than fence; got heartbeat {self.heartbeat_every}, fence {self.fence_after}"
            )
        if self.stall_limit <= self.lease:
            raise ConfigurationError(
                f"stall_limit must be longer than lease; got stall_limit {self.stall_limit}, lease {self.lease}"
            )

    def _check_types(self) -> None:
        if not self.queues:
            raise ConfigurationError("queues must name at least one queue; an app without actors has none")
        for queue in self.queues:
            check_name(queue, "queues")
        if not (self.fair is None or isinstance(self.fair, bool)):
            raise ConfigurationError(f"fair must be True, False, or None for each queue's own; got {self.fair!r}")
        if self.health_address is not None:
            parse_address(self.health_address, "health_address")
        if not isinstance(self.signals, bool):
            raise ConfigurationError(f"signals must be True or False; got {self.signals!r}")
        for field_name in _FOR_PEOPLE:
            value = getattr(self, field_name)
            if value is not None or field_name not in _OPTIONAL:
                check_name(value, field_name)

    @property
    def heartbeat_every(self) -> timedelta:
        """Time between two heartbeats."""
        return self.lease / 6 if self.heartbeat is None else self.heartbeat

    @property
    def fence_after(self) -> timedelta:
        """Time from the start of the last good heartbeat to the self-fence."""
        return self.lease * 5 / 6 if self.fence is None else self.fence


def _check_span(value: object, name: str, shortest: timedelta, longest: timedelta) -> None:
    bounds = f"{format_duration(shortest)} to {format_duration(longest)}"
    if not isinstance(value, timedelta):
        raise ConfigurationError(f"{name} must be a timedelta from {bounds}; got {type(value).__name__}")
    if not shortest <= value <= longest:
        raise ConfigurationError(f"{name} must be from {bounds}; got {in_seconds(value)}")
