"""Carries scaling out: looks at a Deployment and its pods, then at the database, and does what the plan says.

In this order, since a worker that the database then shows draining and empty stays empty: a pod that was seen unready
before cannot have become busy since. Nothing is remembered over a change of the leader.

The passes hand demand over and go on; the looks are made here, several at once, so that a Deployment whose API calls
are slow holds up no Limit and, but for its share of the looks, no other Deployment.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, Protocol

from tidegate.errors import ConfigurationError, DatabaseError
from tidegate.model.demands import CrewMember, QueueNumbers
from tidegate_operator.beats import REST, Beats
from tidegate_operator.databases import Database
from tidegate_operator.errors import ClusterError, ClusterRefused
from tidegate_operator.metrics import Metrics
from tidegate_operator.outages import Outages
from tidegate_operator.reconcile.scaling import Plan, plan
from tidegate_operator.reconcile.scaling_memories import Memory
from tidegate_operator.reconcile.scaling_observations import Deployment, Observation, Pod, Worker
from tidegate_operator.reconcile.scaling_targets import (
    Target,
    asked_replicas,
    demand_of,
    ignored,
    is_settled,
    refused,
    shown_of,
    targets_of,
)
from tidegate_operator.reconcile.statuses import Shown
from tidegate_operator.reconcile.verdicts import Notice
from tidegate_operator.resources import Resource

logger = logging.getLogger(__name__)

CALM: Final = 10.0
"""Seconds between two looks at a Deployment where nothing is under way and no number changed; also the longest wait
after a look that failed."""

RIVALS_EVERY: Final = 30.0
"""Seconds between two looks for other autoscalers of a namespace."""

AT_ONCE: Final = 8
"""Deployments that are looked at at one time."""

FIRST_RETRY: Final = 1.0
"""Seconds until a look that failed is made again; it doubles up to `CALM`."""

LOOP: Final = "scaling"


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
    """What is remembered of one Deployment. ``seen`` is the hand-over that the last look took into account."""

    target: Target
    memory: Memory = field(default_factory=Memory)
    scaled_at: datetime | None = None
    looked_at: float = float("-inf")
    retry_at: float = float("-inf")
    failures: int = 0
    at: object = None
    seen: int = 0
    settled: bool = False
    busy: bool = False


class Scaler:
    """Scales the Deployments that Queue objects name, as long as this process leads.

    Args:
        deployments: the API server.
        database: workers and demand.
        metrics: where counts go.
        beats: where the loop shows that it turns.
        show: called with what every Queue object is shown, whenever that changes.
        tell: called with what happened once, for Events.
    """

    def __init__(
        self,
        deployments: DeploymentsT,
        database: Database,
        *,
        metrics: Metrics,
        beats: Beats,
        show: Callable[[Mapping[str, Shown]], None],
        tell: Callable[[Sequence[Notice]], None],
    ) -> None:
        self._deployments, self._database = deployments, database
        self._metrics, self._beats, self._show, self._tell = metrics, beats, show, tell
        self._outages = Outages(logger, metrics)
        self._known: dict[tuple[str, str], _Known] = {}
        self._rivals: dict[str, tuple[float, dict[str, Sequence[str]]]] = {}
        self._shown: dict[str, Shown] = {}
        self._asked: dict[str, int | None] = {}
        self._numbers: dict[str, QueueNumbers] = {}
        self._epoch = 0
        self._round = 0
        self._blind = False
        self._wake = asyncio.Event()

    def hand_over(self, epoch: int, resources: Sequence[Resource], numbers: Mapping[str, QueueNumbers]) -> None:
        """Take in demand; whatever it changes is looked at soon.

        Args:
            epoch: under which workers are drained.
            resources: Queue objects that own their queue.
            numbers: by queue, of this moment.
        """
        asked = asked_replicas(resources)
        self._tell(ignored(self._asked, asked))
        self._asked, self._numbers, self._epoch, self._blind = asked, dict(numbers), epoch, False
        self._aim_at(resources)

    def hear(self, numbers: Mapping[str, QueueNumbers]) -> None:
        """Take in the demand of some queues, between two times that all of it is handed over."""
        self._numbers |= numbers
        self._round += 1
        self._wake.set()

    def go_blind(self, resources: Sequence[Resource]) -> None:
        """Say of every Deployment that demand cannot be read, and scale none, until demand is handed over again."""
        self._blind = True
        self._aim_at(resources)

    def _aim_at(self, resources: Sequence[Resource]) -> None:
        targets = {each.key: each for each in targets_of(resources)}
        for gone in self._known.keys() - targets.keys():
            del self._known[gone]
            self._outages.forget("scaling", "/".join(gone))
        for key, target in targets.items():
            self._known.setdefault(key, _Known(target)).target = target
        uids = {uid for each in targets.values() for uid in each.uids}
        self._shown = {uid: shown for uid, shown in self._shown.items() if uid in uids}
        self._show(self._shown)
        self._round += 1
        self._wake.set()

    async def run(self) -> None:
        """Look at Deployments until cancelled.

        Raises:
            OfficeLost: another operator leads.
        """
        slots = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as group:
            while True:
                self._beats.beat(LOOP)
                self._wake.clear()
                now = time.monotonic()
                for known in self._known.values():
                    if self._is_due(known, now):
                        known.busy = True
                        group.create_task(self._visit(known, slots))
                with suppress(TimeoutError):
                    async with asyncio.timeout(REST):
                        await self._wake.wait()

    def _is_due(self, known: _Known, now: float) -> bool:
        if known.busy or known.seen == self._round or now < known.retry_at:
            return False
        calm = known.settled and known.at == self._at(known.target) and now - known.looked_at < CALM
        return not calm

    def _at(self, target: Target) -> object:
        return (target, self._blind, tuple(self._numbers.get(queue.queue) for queue in target.queues))

    async def _visit(self, known: _Known, slots: asyncio.Semaphore) -> None:
        try:
            async with slots:
                await self._try(known)
        finally:
            known.busy = False
            self._wake.set()

    async def _try(self, known: _Known) -> None:
        target = known.target
        about = f"{target.namespace}/{target.deployment}"
        known.seen, at, now = self._round, self._at(target), time.monotonic()
        try:
            await self._look(target, known)
        except (ClusterError, DatabaseError, ConfigurationError) as error:
            # what cannot be seen changes nothing
            known.settled = False
            known.failures += 1
            known.retry_at = time.monotonic() + min(CALM, FIRST_RETRY * 2 ** min(known.failures - 1, 10))
            self._outages.failed("scaling", error, about)
            if isinstance(error, ClusterRefused):
                self._publish(known, target, refused(str(error)))
        else:
            known.failures, known.at, known.looked_at = 0, at, now
            self._outages.over("scaling", about)

    async def _look(self, target: Target, known: _Known) -> None:
        scale = await self._deployments.scale(*target.key)
        pods = await self._deployments.pods(target.namespace, scale.selector) if scale and scale.selector else []
        rivals = await self._autoscalers(target.namespace)
        deployment = None if scale is None else _deployment(target, scale, pods, rivals)
        seen = Observation(target.queues, deployment, None)
        if not self._blind:
            store = await self._database.store()
            fresh = await store.queue_numbers(sorted({queue.queue for queue in target.queues}))
            demands = {name: demand_of(each) for name, each in fresh.items()}
            crew = await store.crews([target.namespace])
            seen = replace(seen, demands=demands, workers=tuple(map(_worker, crew)))
        if known.target != target or self._known.get(target.key) is not known:
            return  # the objects ask for something else by now: the next look decides
        made = plan(seen, known.memory, time.monotonic())
        known.memory = made.memory
        await self._carry_out(target, known, made)
        replicas = None if scale is None else scale.replicas
        known.settled = seen.demands is not None and is_settled(made, replicas, seen.demands)
        self._publish(known, target, shown_of(made, replicas, scale.selector if scale else "", known.scaled_at))

    def _publish(self, known: _Known, target: Target, shown: Shown) -> None:
        if self._known.get(target.key) is known:
            self._shown |= dict.fromkeys(known.target.uids, shown)
            self._show(self._shown)

    async def _carry_out(self, target: Target, known: _Known, made: Plan) -> None:
        where = f"{target.namespace}/{target.deployment}"
        if made.drain:
            if await (await self._database.store()).drain_crew(self._epoch, made.drain) is None:
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
