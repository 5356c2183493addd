"""Carries scaling out: looks at a Deployment and its pods, then at the database, and does what the plan says.

In this order, since a worker that the database then shows draining and empty stays empty: a pod that was seen unready
before cannot have become busy since. Nothing is remembered over a change of the leader.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol

from tidegate.model.demands import CrewMember, QueueNumbers
from tidegate.store.operators import OperatorStore
from tidegate_operator.errors import ClusterError
from tidegate_operator.metrics import Metrics
from tidegate_operator.reconcile.scaling import Plan, plan
from tidegate_operator.reconcile.scaling_memories import Memory
from tidegate_operator.reconcile.scaling_observations import Deployment, Observation, Pod, Worker
from tidegate_operator.reconcile.scaling_targets import (
    Target,
    asked_replicas,
    demand_of,
    ignored,
    is_settled,
    shown_of,
    targets_of,
)
from tidegate_operator.reconcile.statuses import Shown
from tidegate_operator.reconcile.verdicts import Notice
from tidegate_operator.resources import Resource

logger = logging.getLogger(__name__)

CALM: Final = 10.0
"""Seconds between two looks at a Deployment where nothing is under way and no number changed."""

RIVALS_EVERY: Final = 30.0
"""Seconds between two looks for other autoscalers of a namespace."""


class ScaleT(Protocol):
    """The scale of a Deployment."""

    @property
    def replicas(self) -> int: ...  # noqa: D102
    @property
    def version(self) -> str: ...  # noqa: D102
    @property
    def selector(self) -> str: ...  # noqa: D102


class DeploymentsT(Protocol):
    """What scaling asks of the API server."""

    async def scale(self, namespace: str, name: str) -> ScaleT | None:
        """Return the scale, None where there is no such Deployment."""

    async def set_scale(self, namespace: str, name: str, replicas: int, version: str) -> bool:
        """Write replicas; False where somebody else wrote meanwhile."""

    async def pods(self, namespace: str, selector: str) -> list[Pod]:
        """Return the pods of a selector."""

    async def autoscalers(self, namespace: str) -> dict[str, Sequence[str]]:
        """Return other autoscalers, by Deployment."""


@dataclass
class _Known:
    """What is remembered of one Deployment."""

    memory: Memory = field(default_factory=Memory)
    scaled_at: datetime | None = None
    looked_at: float = float("-inf")
    at: object = None
    settled: bool = False


class Scaler:
    """Scales the Deployments that Queue objects name, as long as this process leads."""

    def __init__(self, deployments: DeploymentsT, metrics: Metrics) -> None:
        self._deployments, self._metrics = deployments, metrics
        self._known: dict[tuple[str, str], _Known] = {}
        self._rivals: dict[str, tuple[float, dict[str, Sequence[str]]]] = {}
        self.shown: dict[str, Shown] = {}
        """By uid of a Queue object."""
        self.notices: list[Notice] = []
        """What happened since the last call, for Events."""
        self._asked: dict[str, int | None] = {}

    async def scale(
        self, store: OperatorStore, epoch: int, resources: Sequence[Resource], numbers: Mapping[str, QueueNumbers]
    ) -> None:
        """Look at every Deployment that may need it, and act.

        Args:
            store: the database.
            epoch: under which workers are drained.
            resources: Queue objects that own their queue.
            numbers: by queue, of this moment.

        Raises:
            DatabaseError: the workers could not be read or drained.
            OfficeLost: another operator leads.
        """
        asked = asked_replicas(resources)
        self.notices, self._asked = ignored(self._asked, asked), asked
        targets = targets_of(resources)
        for gone in self._known.keys() - {each.key for each in targets}:
            del self._known[gone]
        uids = {uid for each in targets for uid in each.uids}
        self.shown = {uid: shown for uid, shown in self.shown.items() if uid in uids}
        for target in targets:
            known = self._known.setdefault(target.key, _Known())
            at = (target, tuple(numbers.get(queue.queue) for queue in target.queues))
            now = time.monotonic()
            if known.settled and known.at == at and now - known.looked_at < CALM:
                continue
            try:
                await self._look(store, epoch, target, known)
            except ClusterError as error:
                # what cannot be seen changes nothing; the next look is soon
                known.settled = False
                self._metrics.failures.labels("scaling").inc()
                logger.debug("a Deployment was not scaled", extra={"error": str(error)})
            else:
                known.at, known.looked_at = at, now

    async def _look(self, store: OperatorStore, epoch: int, target: Target, known: _Known) -> None:
        scale = await self._deployments.scale(*target.key)
        pods = await self._deployments.pods(target.namespace, scale.selector) if scale and scale.selector else []
        rivals = await self._autoscalers(target.namespace)
        fresh = await store.queue_numbers(sorted({queue.queue for queue in target.queues}))
        crew = await store.crews([target.namespace])
        demands = {name: demand_of(each) for name, each in fresh.items()}
        deployment = None if scale is None else _deployment(target, scale, pods, rivals)
        seen = Observation(target.queues, deployment, demands, tuple(map(_worker, crew)))
        made = plan(seen, known.memory, time.monotonic())
        known.memory = made.memory
        await self._carry_out(store, epoch, target, known, made)
        replicas = None if scale is None else scale.replicas
        known.settled = is_settled(made, replicas, demands)
        shown = shown_of(made, replicas, scale.selector if scale else "", known.scaled_at)
        self.shown |= dict.fromkeys(target.uids, shown)

    async def _carry_out(self, store: OperatorStore, epoch: int, target: Target, known: _Known, made: Plan) -> None:
        where = f"{target.namespace}/{target.deployment}"
        if made.drain:
            if await store.drain_crew(epoch, made.drain) is None:
                return  # the next look decides anew
            logger.info("workers are draining", extra={"deployment": where, "workers": len(made.drain)})
        if made.replicas is not None and await self._deployments.set_scale(*target.key, made.replicas, made.version):
            known.scaled_at = datetime.now(UTC)
            self._metrics.scalings.inc()
            logger.info("scaled", extra={"deployment": where, "replicas": made.replicas})

    async def _autoscalers(self, namespace: str) -> dict[str, Sequence[str]]:
        at, found = self._rivals.get(namespace, (float("-inf"), {}))
        if time.monotonic() - at >= RIVALS_EVERY:
            found = await self._deployments.autoscalers(namespace)
            self._rivals[namespace] = (time.monotonic(), found)
        return found


def _deployment(target: Target, scale: ScaleT, pods: Sequence[Pod], rivals: Mapping[str, Sequence[str]]) -> Deployment:
    return Deployment(
        name=target.deployment,
        replicas=scale.replicas,
        version=scale.version,
        pods=tuple(pods),
        autoscalers=tuple(rivals.get(target.deployment, ())),
    )


def _worker(member: CrewMember) -> Worker:
    return Worker(member.id, member.pod, member.slots, member.jobs, draining=member.draining)
