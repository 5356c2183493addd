"""The autoscalers that are compared: the operator's own plan, and the formulas of KEDA and of the HPA."""

from __future__ import annotations

from collections import deque
from math import ceil

from bench.scaling.worlds import HORIZON, SLOTS, World
from tidegate_operator.reconcile.scaling import plan
from tidegate_operator.reconcile.scaling_memories import Memory
from tidegate_operator.reconcile.scaling_observations import (
    Demand,
    Deployment,
    Observation,
    Pod,
    QueueWorkers,
    Worker,
)


def demand(world: World) -> Demand:
    """Return what the view ``queue_demand`` would say of the world."""
    runnable = waiting = 0
    for key, jobs in world.waiting.items():
        room = world.room(key, HORIZON)
        rule = world.trace.rules.get(key)
        if rule is not None and rule.max_starts is not None:
            seconds = [s for k, s in world.recent if k == key]
            used = len(world.starts[key])
            steady = None
            if seconds:
                steady = rule.max_starts * sum(seconds) / len(seconds) / rule.window
            elif used:
                steady = rule.max_starts * world.running[key] / used
            if steady is not None:
                room = min(room, max(0, max(1, ceil(steady)) - world.running[key]))
        runnable += int(min(len(jobs), room))
        waiting += len(jobs)
    return Demand(sum(world.running.values()), runnable, waiting - runnable)


class Tidegate:
    """The operator's plan, every two seconds, from zero to the maximum."""

    interval = 2.0

    def __init__(self, maximum: int) -> None:
        self.queue = QueueWorkers("mail", "mail", slots=SLOTS, maximum=maximum)
        self.memory = Memory()

    def look(self, world: World) -> None:
        """Observe, plan, mark and write, as the operator does."""
        pods = tuple(
            Pod(pod.name, pod.ready, world.now - pod.made_at, 0.0 if pod.ready else world.now - pod.made_at)
            for pod in world.pods
        )
        workers = tuple(
            Worker(pod.id, pod.name, SLOTS, len(pod.jobs), pod.draining)
            for pod in world.pods
            if pod.starts_at <= world.now
        )
        seen = Observation(
            (self.queue,), Deployment("mail", world.replicas, "", pods), {"mail": demand(world)}, workers
        )
        made = plan(seen, self.memory, world.now)
        self.memory = made.memory
        for pod in world.pods:
            pod.draining = pod.draining or pod.id in made.drain
        if made.replicas is not None:
            world.replicas = made.replicas


class Hpa:
    """The HPA's formula on a metric: tolerance of a tenth, up by a doubling or 4 in 15 s, down over 5 minutes."""

    interval = 15.0
    stabilization = 300.0

    def __init__(self, maximum: int, minimum: int = 1) -> None:
        self.maximum, self.minimum = maximum, minimum
        self.recommendations: deque[tuple[float, int]] = deque()

    def wanted(self, world: World) -> int:
        """Return the replicas for the busy share of the slots, 80 percent being the target."""
        ready = sum(pod.ready for pod in world.pods)
        if not ready:
            return world.replicas
        ratio = sum(len(pod.jobs) for pod in world.pods) / (ready * SLOTS) / 0.8
        return world.replicas if abs(ratio - 1) <= 0.1 else ceil(ready * ratio)

    def look(self, world: World) -> None:
        """Stabilize and bound what is wanted."""
        self.recommendations.append((world.now, self.wanted(world)))
        while self.recommendations[0][0] <= world.now - self.stabilization:
            self.recommendations.popleft()
        wanted = self.recommendations[-1][1]
        if wanted < world.replicas:
            wanted = min(world.replicas, max(n for _, n in self.recommendations))
        pace = max(2 * world.replicas, world.replicas + 4)
        world.replicas = max(min(wanted, pace, self.maximum), self.minimum)


class Keda(Hpa):
    """KEDA over an HPA: a metric by query, its value per pod the target; from zero every 30 s, to zero after 300 s."""

    interval = 15.0
    polling = 30.0
    cooldown = 300.0

    def __init__(self, maximum: int, *, by_demand: bool = False) -> None:
        super().__init__(maximum)
        self.by_demand = by_demand
        self.active_at = 0.0

    def metric(self, world: World) -> int:
        """Return the backlog with what runs, or what the view says."""
        if self.by_demand:
            there = demand(world)
            return there.running + there.runnable
        return sum(world.running.values()) + sum(len(jobs) for jobs in world.waiting.values())

    def wanted(self, world: World) -> int:
        """Return the replicas that bring the metric per pod to the slots of one."""
        return ceil(self.metric(world) / SLOTS)

    def look(self, world: World) -> None:
        """Activate, cool down, and leave the rest to the HPA."""
        if self.metric(world):
            self.active_at = world.now
        if world.replicas == 0:
            if self.metric(world) and world.now % self.polling == 0:
                self.recommendations.clear()
                world.replicas = 1
        elif world.now - self.active_at >= self.cooldown:
            world.replicas = 0
        else:
            super().look(world)


class Fixed:
    """All workers all the time: the shortest wait that money can buy."""

    interval = 60.0

    def look(self, world: World) -> None:
        """Leave everything as it is."""
