"""Rows in the database, kept as their objects ask: read, decide, confirm what has to be confirmed, write in batches."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol, TypeVar

from tidegate.model.ownership import HeldRow, Outcome, Ownership
from tidegate.store.operators import OperatorStore, Wanted
from tidegate_operator.caches import ObjectCache
from tidegate_operator.config import Config
from tidegate_operator.errors import ClusterError, ClusterUnavailable
from tidegate_operator.metrics import Metrics
from tidegate_operator.outages import Outages
from tidegate_operator.reconcile.kinds import changes_of, claims_of, end_of
from tidegate_operator.reconcile.limits import marked
from tidegate_operator.reconcile.ownership import Cause, Claim, Decision, World, decide
from tidegate_operator.reconcile.verdicts import Notice, Verdict, notices, unreadable, verdicts
from tidegate_operator.resources import Identity, Kind, Resource

logger = logging.getLogger(__name__)

AT_ONCE: Final = 8
"""Objects that the API server is asked about at one time."""

T = TypeVar("T")

AT_A_STRETCH: Final = 200
"""Rows that are decided about before the event loop turns: the lease has to be renewed meanwhile."""


def batched(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the items, some at a time."""
    return (items[start : start + size] for start in range(0, len(items), size))


class ObjectsT(Protocol):
    """What is asked of the API server."""

    async def served(self) -> frozenset[str]:
        """Return the plurals that are served."""

    async def list(self, kind: Kind, namespace: str | None) -> list[Mapping[str, Any]]:
        """Return every object."""

    async def get(self, identity: Identity) -> Mapping[str, Any] | None:
        """Return the object of this name, or None."""


@dataclass
class Kept:
    """What a pass over rows of one kind came to."""

    verdicts: dict[str, Verdict] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
    again: set[str] = field(default_factory=set)
    """Rows that somebody held, that another owner has by now, or of whose owner nothing could be learnt: to be looked
    at again."""
    busy: set[str] = field(default_factory=set)
    """Those of them that somebody held."""
    orphans: dict[str, datetime] = field(default_factory=dict)
    """Rows whose object is gone, and when they may be given up, by the database's clock."""


class Keeper:
    """Keeps the rows of one kind. One pass at a time.

    Args:
        kind: the kind.
        cache: the objects.
        objects: the API server, for what the cache cannot tell.
        config: patterns, budget, former cluster ids.
        cluster: the cluster id.
        namespaces: returns those about which may be decided, None for all.
        metrics: where counts go.
    """

    def __init__(
        self,
        kind: Kind,
        cache: ObjectCache,
        objects: ObjectsT,
        *,
        config: Config,
        cluster: str,
        namespaces: Callable[[], frozenset[str] | None],
        metrics: Metrics,
    ) -> None:
        self.kind = kind
        self._cache, self._objects, self._config, self._cluster = cache, objects, config, cluster
        self._namespaces, self._metrics = namespaces, metrics
        self._outages = Outages(logger, metrics)
        self._owners = (cluster, *config.former_cluster_ids)
        self._gone: set[str] = set()
        self._unanswered = False

    async def keep(self, store: OperatorStore, epoch: int, rows: Iterable[str] | None) -> Kept:
        """Look at these rows, at all of them with None, and make them what their objects ask.

        Raises:
            DatabaseError: nothing more is known of the rest; the pass is to be made again.
            OfficeLost: another operator leads.
        """
        wanted = None if rows is None else frozenset(rows)
        self._unanswered = False
        # what goes while this pass goes on is still to be found
        objects = self._seen()
        claims = self._claims(wanted, frozenset())
        names = sorted(claims if wanted is None else wanted)
        held = await store.held(self.kind.plural, names, owners=self._owners if wanted is None else ())
        now = await store.clock()
        decisions = await self._decide({*names, *held}, claims, held, self._world(now))
        await self._confirm(decisions, held, now)
        objects |= self._seen()
        outcomes = await self._write(store, epoch, decisions)
        kept = self._results(decisions, outcomes, objects)
        await self._sweep(store, epoch, decisions, kept)
        return kept

    def _seen(self) -> dict[str, Resource]:
        return {each.identity.uid: each for each in self._resources()}

    def _resources(self) -> list[Resource]:
        """Objects of the namespaces about which may be decided."""
        namespaces, found = self._namespaces(), self._cache.of(self.kind)
        return found if namespaces is None else [each for each in found if each.identity.namespace in namespaces]

    @staticmethod
    async def _decide(
        rows: Iterable[str], claims: Mapping[str, Sequence[Claim]], held: Mapping[str, HeldRow], world: World
    ) -> dict[str, Decision]:
        decisions: dict[str, Decision] = {}
        for number, row in enumerate(rows):
            decisions[row] = decide(row, claims.get(row, ()), held.get(row), world)
            if number % AT_A_STRETCH == 0:
                await asyncio.sleep(0)
        return decisions

    def _claims(self, rows: frozenset[str] | None, fresh: frozenset[str]) -> dict[str, list[Claim]]:
        resources = [each for each in self._resources() if rows is None or each.row in rows]
        return claims_of(self.kind, resources, self._config.patterns, fresh)

    def _world(self, now: datetime) -> World:
        resources = self._resources()
        return World(
            cluster=self._cluster,
            now=now,
            known=frozenset(each.identity.uid for each in resources),
            unreadable=frozenset(each.identity.uid for each in resources if each.manifest is None),
            gone=frozenset(self._gone),
            namespaces=self._namespaces(),
            former=frozenset(self._config.former_cluster_ids),
        )

    async def _confirm(self, decisions: dict[str, Decision], held: Mapping[str, HeldRow], now: datetime) -> None:
        """Ask the API server about owners that were not seen and objects that were seen too early; decide again."""
        again: set[str] = set()
        fresh: set[str] = set()

        async def confirm(row: str, decision: Decision) -> None:
            if decision.ask is not None and await self._is_gone(decision.ask):
                again.add(row)
            for uid in decision.stale:
                known = self._cache.get(uid)
                raw = await self._asked(known.identity) if known is not None else None
                if raw is not None and raw["metadata"]["uid"] == uid:
                    self._cache.see(self.kind, raw)
                    fresh.add(uid)
                    again.add(row)

        doubtful = [(row, each) for row, each in decisions.items() if each.ask is not None or each.stale]
        # a few at a time: one answer that is slow in coming must not hold up the whole pass
        for some in batched(doubtful, AT_ONCE):
            if self._unanswered:
                break
            await asyncio.gather(*(confirm(row, decision) for row, decision in some))
        if again:
            claims = self._claims(frozenset(again), frozenset(fresh))
            decisions |= await self._decide(again, claims, held, self._world(now))

    async def _asked(self, identity: Identity) -> Mapping[str, Any] | None:
        try:
            raw = await self._objects.get(identity)
        except ClusterError as error:
            self._doubt(error, identity.namespace)
            return None
        self._outages.over("confirming", identity.namespace)
        return raw

    def _doubt(self, error: ClusterError, namespace: str) -> None:
        """What could not be asked holds up its own row, which is looked at again; a silent server ends the asking."""
        self._outages.failed("confirming", error, namespace)
        self._unanswered = self._unanswered or isinstance(error, ClusterUnavailable)

    async def _is_gone(self, owner: Ownership) -> bool:
        """Tell whether the API server, while it serves the kind, knows no such object; what it knows is taken in."""
        try:
            raw = await self._objects.get(Identity(self.kind, owner.namespace, owner.name, owner.uid))
            # asked second: a definition that went away in between would answer 404 for everything
            if self.kind.plural not in await self._objects.served():
                return False
        except ClusterError as error:
            self._doubt(error, owner.namespace)
            return False
        self._outages.over("confirming", owner.namespace)
        if raw is not None and raw["metadata"]["uid"] == owner.uid:
            # the watch or a list has not told of it: neither is to be believed about the others
            self._cache.see(self.kind, raw)
            self._cache.relist()
            return False
        if raw is not None:
            self._cache.see(self.kind, raw)
        self._gone.add(owner.uid)
        return True

    async def _write(
        self, store: OperatorStore, epoch: int, decisions: Mapping[str, Decision]
    ) -> Mapping[str, Outcome]:
        wanted = [
            Wanted(row, each.write.expected, changes_of(self.kind, each.write))
            for row, each in decisions.items()
            if each.write is not None
        ]
        orphans = {row: each.orphan for row, each in decisions.items() if each.orphan is not None}
        # One of them is asked for by name: a list that came back empty by mistake marks nothing.
        if orphans and await self._is_gone(next(iter(orphans.values()))):
            wanted += [Wanted(row, owner, marked(owner)) for row, owner in orphans.items()]
        return await store.own(self.kind.plural, epoch, wanted) if wanted else {}

    def _results(
        self, decisions: Mapping[str, Decision], outcomes: Mapping[str, Outcome], objects: Mapping[str, Resource]
    ) -> Kept:
        kept = Kept()
        kept.verdicts |= {uid: unreadable(each) for uid, each in objects.items() if each.manifest is None}
        for row, decision in decisions.items():
            outcome = outcomes.get(row)
            told = verdicts(decision, outcome, objects, self._config.patterns)
            kept.verdicts |= told
            if decision.ask is not None or decision.stale or (outcome is not None and outcome is not Outcome.WRITTEN):
                kept.again.add(row)
                if outcome is Outcome.BUSY:
                    kept.busy.add(row)
            elif decision.write is not None:
                kept.notices += notices(decision)
                self._count(decision.write.cause)
                self._gone.discard(decision.write.expected.uid if decision.write.expected else "")
            elif decision.orphan is not None and outcome is None:
                kept.again.add(row)
            elif decision.orphan is not None and decision.orphan.ends_at is not None:
                kept.orphans[row] = decision.orphan.ends_at
            elif decision.waits is not None:
                kept.orphans[row] = decision.waits
        return kept

    async def _sweep(self, store: OperatorStore, epoch: int, decisions: Mapping[str, Decision], kept: Kept) -> None:
        """Give up rows whose grace is over, each after the API server said that its object is no more."""
        due = [(row, each.due) for row, each in decisions.items() if each.due is not None]
        kept.again |= {row for row, _ in due}
        for some in batched(due, AT_ONCE):
            if self._unanswered:
                return
            gone = await asyncio.gather(*(self._is_gone(owner) for _, owner in some))
            ended = [each for each, is_gone in zip(some, gone, strict=True) if is_gone]
            if not await self._give_up(store, epoch, ended, kept):
                return

    async def _give_up(
        self, store: OperatorStore, epoch: int, ended: Iterable[tuple[str, Ownership]], kept: Kept
    ) -> bool:
        """Give up rows of objects that are confirmed to be gone; False once the budget is spent."""
        for row, owner in ended:
            if self._is_claimed(row, owner):
                continue
            wanted = Wanted(row, owner, end_of(self.kind, owner, row))
            if owner.retain:
                outcome = (await store.own(self.kind.plural, epoch, [wanted]))[row]
            else:
                outcome = await store.sweep(self.kind.plural, epoch, wanted, self._config.sweep_a_minute)
            if outcome is Outcome.HELD_BACK:
                logger.warning("the budget for rows of objects that are gone is spent; the rest waits")
                return False
            if outcome is Outcome.WRITTEN:
                kept.again.discard(row)
                self._metrics.swept.labels(self.kind.value).inc()
                logger.info(
                    "a row is given up, its object is gone",
                    extra={"kind": self.kind.value, "row": row, "owner": f"{owner.namespace}/{owner.name}"},
                )
        return True

    def _is_claimed(self, row: str, owner: Ownership) -> bool:
        """Tell whether an object asks for the row by now, so that the next pass decides.

        One that stands where the owner stood and cannot be read may ask for it.
        """
        at = (owner.namespace, owner.name)
        return any(
            each.row == row or (each.row is None and (each.identity.namespace, each.identity.name) == at)
            for each in self._cache.of(self.kind)
        )

    def _count(self, cause: Cause) -> None:
        self._metrics.rows.labels(self.kind.value, cause.value).inc()
