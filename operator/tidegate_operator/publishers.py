"""What objects are shown: verdicts and live numbers, as statuses for the writer."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from tidegate.model.demands import QueueNumbers
from tidegate.model.limits import LimitStatus
from tidegate.store.operators import OperatorStore
from tidegate_operator.caches import ObjectCache
from tidegate_operator.conditions import Reason, find
from tidegate_operator.metrics import Metrics
from tidegate_operator.reconcile.statuses import Shown, limit_status, queue_status
from tidegate_operator.reconcile.verdicts import Notice, Verdict
from tidegate_operator.resources import Kind, Resource
from tidegate_operator.writers import Writer

logger = logging.getLogger(__name__)

AT_A_STRETCH: Final = 200
"""Statuses that are made before the event loop turns: the lease has to be renewed meanwhile."""

SILENT = frozenset({Reason.IN_FORCE, Reason.PENDING, Reason.DATABASE_UNAVAILABLE, Reason.DATABASE_REFUSED})
"""Reasons that make no Event: the database's failures are every object's, and the log's."""


@dataclass(frozen=True)
class _Seen:
    """What a status was made from: the same again gives the same status."""

    version: str
    verdict: Verdict
    numbers: LimitStatus | QueueNumbers | None
    corrections: int
    scaling: Shown | None


class Publisher:
    """Remembers the verdict on every object and hands over the status that follows from it and from the numbers."""

    def __init__(self, cache: ObjectCache, writer: Writer, metrics: Metrics) -> None:
        self._cache, self._writer, self._metrics = cache, writer, metrics
        self._verdicts: dict[str, Verdict] = {}
        self._corrections: Counter[str] = Counter()
        self._shown: dict[str, _Seen] = {}
        self._scaling: Mapping[str, Shown] = {}

    def take(self, verdicts: Mapping[str, Verdict], notices: Iterable[Notice]) -> None:
        """Remember verdicts, and make Events of what happened once."""
        for uid, verdict in verdicts.items():
            before, self._verdicts[uid] = self._verdicts.get(uid), verdict
            resource = self._cache.get(uid)
            if resource is not None and verdict.reason != (before.reason if before else _reason(resource)):
                self._tell_transition(resource, verdict)
        self.tell(notices)

    def tell(self, notices: Iterable[Notice]) -> None:
        """Make Events of what happened once."""
        for notice in notices:
            resource = self._cache.get(notice.uid)
            if notice.reason == "DriftCorrected":
                known = int((resource.status if resource else {}).get("driftCorrections") or 0)
                self._corrections[notice.uid] = max(self._corrections[notice.uid], known) + 1
            if resource is not None:
                self._writer.tell(resource.identity, notice.reason, notice.message, warning=notice.warning)

    def take_scaling(self, shown: Mapping[str, Shown]) -> None:
        """Remember what scaling shows, by uid of a Queue object, and hand over the statuses that change by it."""
        before, self._scaling = self._scaling, dict(shown)
        now = datetime.now(UTC)
        for uid in before.keys() | shown.keys():
            resource, seen = self._cache.get(uid), self._shown.get(uid)
            if resource is not None and seen is not None and before.get(uid) != shown.get(uid):
                self._show(resource, seen.verdict, seen.numbers, now)

    async def publish(
        self, store: OperatorStore, kind: Kind, rows: Iterable[str] | None = None
    ) -> Mapping[str, LimitStatus | QueueNumbers]:
        """Read live numbers and hand over the statuses of these rows' objects, of every object with None.

        Returns the numbers of the rows that these objects own.

        Raises:
            DatabaseError: the numbers could not be read.
        """
        wanted = None if rows is None else frozenset(rows)
        resources = [each for each in self._cache.of(kind) if wanted is None or each.row in wanted or each.row is None]
        names = sorted({each.row for each in resources if each.row is not None and self._owns(each)})
        numbers: Mapping[str, LimitStatus | QueueNumbers] = {}
        if names:
            numbers = await (store.limit_numbers(names) if kind is Kind.LIMIT else store.queue_numbers(names))
        now = datetime.now(UTC)
        for number, each in enumerate(resources):
            if number % AT_A_STRETCH == 0:
                await asyncio.sleep(0)
            found = numbers.get(each.row or "") if self._owns(each) else None
            verdict = self._verdicts.get(each.identity.uid)
            if verdict is not None:
                self._show(each, verdict, found, now)
        if wanted is None:
            self._forget()
            self._count(kind, resources)
            if kind is Kind.LIMIT:
                self._metrics.show_limits({k: n for k, n in numbers.items() if isinstance(n, LimitStatus)})
            else:
                self._metrics.show_queues({k: n for k, n in numbers.items() if isinstance(n, QueueNumbers)})
        return numbers

    def fail(self, reason: Reason, message: str) -> None:
        """Say of every object that the database does not answer, or refuses; numbers stay as they were."""
        now = datetime.now(UTC)
        for kind in Kind:
            for each in self._cache.of(kind):
                known = self._verdicts.get(each.identity.uid)
                stalled = known is not None and known.owner is not None
                verdict = Verdict(reason, message, each.generation)
                if not stalled:
                    self._show(each, verdict, None, now)

    def _show(
        self, resource: Resource, verdict: Verdict, numbers: LimitStatus | QueueNumbers | None, now: datetime
    ) -> None:
        uid = resource.identity.uid
        corrections = self._corrections[uid]
        scaling = self._scaling.get(uid)
        seen = _Seen(resource.version, verdict, numbers, corrections, scaling)
        if self._shown.get(uid) == seen:
            return
        self._shown[uid] = seen
        if resource.identity.kind is Kind.LIMIT:
            found = numbers if isinstance(numbers, LimitStatus) else None
            status: dict[str, Any] = limit_status(resource, verdict, found, corrections, now)
        else:
            of_queue = numbers if isinstance(numbers, QueueNumbers) else None
            status = queue_status(resource, verdict, of_queue, corrections, now, shown=scaling)
        self._writer.offer(resource.identity, status)

    def owners(self, kind: Kind) -> list[Resource]:
        """Return the objects of a kind that own their rows."""
        return [each for each in self._cache.of(kind) if self._owns(each)]

    def undisputed(self, kind: Kind) -> list[Resource]:
        """Return the objects of a kind that nothing is known to keep from their rows: all of them, at the start."""
        return [
            each
            for each in self._cache.of(kind)
            if self._owns(each) or (each.identity.uid not in self._verdicts and not each.status.get("owner"))
        ]

    def _owns(self, resource: Resource) -> bool:
        verdict = self._verdicts.get(resource.identity.uid)
        return verdict is not None and verdict.owner is None and verdict.reason is not Reason.KEY_NOT_ALLOWED

    def _tell_transition(self, resource: Resource, verdict: Verdict) -> None:
        before = find(resource.status, "Ready")
        if verdict.reason not in SILENT:
            self._writer.tell(resource.identity, verdict.reason, verdict.message, warning=True)
        elif verdict.reason is Reason.IN_FORCE and before.get("reason") not in {None, *SILENT}:
            self._writer.tell(resource.identity, "InForce", verdict.message)

    def _forget(self) -> None:
        for known in (self._verdicts, self._corrections, self._shown):
            for uid in [uid for uid in known if self._cache.get(uid) is None]:
                del known[uid]

    def _count(self, kind: Kind, resources: Iterable[Resource]) -> None:
        reasons = Counter(
            verdict.reason for each in resources if (verdict := self._verdicts.get(each.identity.uid)) is not None
        )
        for reason in Reason:
            if reason is not Reason.IN_FORCE:
                self._metrics.not_ready.labels(kind.value, reason.value).set(reasons[reason])
        self._metrics.objects.labels(kind.value).set(reasons.total())


def _reason(resource: Resource) -> str:
    return str(find(resource.status, "Ready").get("reason") or "")
