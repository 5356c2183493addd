"""A cluster and a queue with a fake clock: pods that take time, a ReplicaSet that ends unready ones first, limits."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from math import ceil
from typing import Final, Protocol
from uuid import UUID

from bench.scaling.traces import Job, Trace

TICK: Final = 0.5
"""Seconds between two looks at everything."""

POD_START: Final = 8.0
"""Seconds from a pod's creation to its first claim."""

PROBE: Final = 2.0
"""Seconds until Kubernetes notices that a pod became ready, or is not any more."""

GRACE: Final = 30.0
"""Seconds that a pod may go on after SIGTERM."""

HORIZON: Final = 30.0
"""Seconds ahead that demand looks: the view's own."""

SLOTS: Final = 10
"""Jobs that one worker runs at once."""


@dataclass(eq=False)
class WorldPod:
    """A pod with one worker, which claims from ``starts_at`` on and holds jobs by the instant at which they end."""

    number: int
    made_at: float
    starts_at: float
    ready: bool = False
    turning_at: float | None = None
    draining: bool = False
    ended_at: float | None = None
    had_work: bool = False
    jobs: list[tuple[float, Job]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of the pod."""
        return f"worker-{self.number}"

    @property
    def id(self) -> UUID:
        """Identity of its worker."""
        return UUID(int=self.number)


class Autoscaler(Protocol):
    """Looks at a world every ``interval`` seconds, and writes its ``replicas``."""

    interval: float

    def look(self, world: World) -> None:
        """Decide."""


class World:
    """One run of a trace under one autoscaler; ``replicas`` is what the autoscaler writes."""

    def __init__(self, trace: Trace, *, replicas: int, maximum: int) -> None:
        self.trace = trace
        self.maximum = maximum
        self.replicas = replicas
        self.now = 0.0
        self.pods: list[WorldPod] = []
        self.waiting: dict[str, deque[Job]] = defaultdict(deque)
        self.running: dict[str, int] = defaultdict(int)
        self.starts: dict[str, deque[float]] = defaultdict(deque)
        self.recent: deque[tuple[str, float]] = deque(maxlen=1000)
        self.waits: list[float] = []
        self.free_waits: list[float] = []
        self.busy_ended = self.jobs_cut = self.for_blocked = self.never_worked = self.changes = 0
        self.pod_seconds = 0.0
        self.most_replicas = replicas
        self._looked_at = float("-inf")
        self._made = 0
        self._arrivals = deque(trace.jobs)
        self._ending: list[WorldPod] = []

    def run(self, autoscaler: Autoscaler, *, most: float) -> None:
        """Run until every job is done, at most ``most`` seconds."""
        while self.now < most and not self._over():
            self.step(autoscaler)
        self.never_worked += sum(not pod.had_work for pod in self.pods)

    def linger(self, autoscaler: Autoscaler, *, until: float) -> None:
        """Go on although nothing is left to do."""
        while self.now < until:
            self.step(autoscaler)

    def step(self, autoscaler: Autoscaler) -> None:
        """One tick: what arrives and ends, what is claimed, what is decided, what the cluster makes of it."""
        while self._arrivals and self._arrivals[0].at <= self.now:
            job = self._arrivals.popleft()
            self.waiting[job.key].append(job)
        self._finish()
        self._claim()
        if self.now - self._looked_at >= autoscaler.interval:
            self._looked_at, before = self.now, self.replicas
            autoscaler.look(self)
            leaving = sum(pod.draining for pod in self.pods)
            self.changes += self.replicas != before
            self.most_replicas = max(self.most_replicas, self.replicas)
            self.for_blocked += max(0, self.replicas - max(before, leaving + self._needed()))
        self._control()
        self.pod_seconds += TICK * (len(self.pods) + len(self._ending))
        self.now += TICK

    def room(self, key: str, ahead: float = 0.0) -> float:
        """Return how many jobs of a key may start, with the starts that leave the window ``ahead`` seconds from now."""
        rule = self.trace.rules.get(key)
        if rule is None:
            return float("inf")
        room = float("inf") if rule.max_running is None else rule.max_running - self.running[key]
        if rule.max_starts is not None:
            marks = self.starts[key]
            while marks and marks[0] <= self.now - rule.window:
                marks.popleft()
            room = min(room, rule.max_starts - sum(mark > self.now + ahead - rule.window for mark in marks))
        return max(0.0, room)

    def _over(self) -> bool:
        idle = not self._arrivals and not any(self.waiting.values()) and not any(self.running.values())
        return idle and not self._ending

    def _needed(self) -> int:
        """Workers that everything could fill which runs or may start until a new pod is there, leaving ones apart."""
        held = sum(len(pod.jobs) for pod in self.pods if not pod.draining)
        startable = sum(min(len(jobs), self.room(key, HORIZON)) for key, jobs in self.waiting.items())
        return ceil((held + startable) / SLOTS)

    def _finish(self) -> None:
        for pod in [*self.pods, *self._ending]:
            cut = pod.ended_at is not None and self.now >= pod.ended_at + GRACE
            left = []
            for end, job in pod.jobs:
                if end > self.now and not cut:
                    left.append((end, job))
                    continue
                self.running[job.key] -= 1
                if end > self.now:
                    # given back at the end of the grace period: it runs again from its beginning
                    self.jobs_cut += 1
                    self.waiting[job.key].appendleft(job)
                else:
                    self.recent.append((job.key, job.seconds))
            pod.jobs = left
        self._ending = [pod for pod in self._ending if pod.jobs]

    def _claim(self) -> None:
        workers = [pod for pod in self.pods if pod.starts_at <= self.now and not pod.draining and len(pod.jobs) < SLOTS]
        while workers:
            open_keys = [key for key, jobs in self.waiting.items() if jobs and self.room(key) >= 1]
            if not open_keys:
                return
            key = min(open_keys, key=lambda key: self.waiting[key][0].at)
            # whichever worker asks first: none is favoured for being full or empty
            pod = workers[len(self.waits) % len(workers)]
            job = self.waiting[key].popleft()
            self.running[key] += 1
            if key in self.trace.rules and self.trace.rules[key].max_starts is not None:
                self.starts[key].append(self.now)
            self.waits.append(self.now - job.at)
            if key not in self.trace.rules:
                self.free_waits.append(self.now - job.at)
            pod.jobs.append((self.now + job.seconds, job))
            pod.had_work = True
            if len(pod.jobs) >= SLOTS:
                workers.remove(pod)

    def _control(self) -> None:
        """What kubelet and ReplicaSet do: readiness follows with a delay, and a surplus ends unready pods first."""
        for pod in self.pods:
            meant = pod.starts_at <= self.now and not (pod.draining and not pod.jobs)
            if meant == pod.ready:
                pod.turning_at = None
            elif pod.turning_at is None:
                pod.turning_at = self.now + PROBE
            elif self.now >= pod.turning_at:
                pod.ready, pod.turning_at = meant, None
        while len(self.pods) < self.replicas:
            self._made += 1
            self.pods.append(WorldPod(self._made, self.now, self.now + POD_START))
        surplus = len(self.pods) - self.replicas
        if surplus > 0:
            order = sorted(self.pods, key=lambda pod: (pod.ready, -pod.made_at, -pod.number))
            for pod in order[:surplus]:
                self.pods.remove(pod)
                self.busy_ended += bool(pod.jobs)
                self.never_worked += not pod.had_work
                pod.ended_at = self.now
                self._ending.append(pod)
