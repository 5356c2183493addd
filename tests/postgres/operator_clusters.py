"""A cluster in memory for the reconciler: it keeps objects as an API server does, and can fail, lie and stop on demand.

Only the server's side is played. Everything of the operator but its watch and its HTTP client is the real one, on a
real Postgres; the watch is the events that the cluster hands to the cache.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tidegate_operator.beats import Beats
from tidegate_operator.caches import ObjectCache
from tidegate_operator.cluster.deployments import Scale
from tidegate_operator.conditions import find
from tidegate_operator.config import Config
from tidegate_operator.databases import Database
from tidegate_operator.errors import ClusterRefused, ClusterUnavailable
from tidegate_operator.leaders import Leader
from tidegate_operator.metrics import Metrics
from tidegate_operator.reconcile.scaling_observations import Pod
from tidegate_operator.reconciler import Reconciler
from tidegate_operator.resources import Identity, Kind

Raw = dict[str, Any]
Pods = list[Pod]


@dataclass
class MemoryCluster:
    """Objects, by kind, namespace and name.

    ``refuses`` are calls that are answered with 403, ``forbidden`` namespaces of which every call is; the Deployments
    of ``silent`` do not answer until their event is set.
    """

    objects: dict[tuple[Kind, str, str], Raw] = field(default_factory=dict)
    watchers: list[ObjectCache] = field(default_factory=list)
    events: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    scales: dict[tuple[str, str], Scale] = field(default_factory=dict)
    running: dict[str, list[Pod]] = field(default_factory=dict)
    rivals: dict[str, Sequence[str]] = field(default_factory=dict)
    lists: Counter[str | None] = field(default_factory=Counter)
    writes: int = 0
    away: bool = False
    lists_nothing: bool = False
    refuses: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()
    silent: dict[str, asyncio.Event] = field(default_factory=dict)
    serves: frozenset[str] = frozenset({"limits", "queues"})
    before_call: Callable[[str], None] = field(default=lambda _: None)
    _versions: Any = field(default_factory=lambda: itertools.count(1))

    def apply(
        self, kind: Kind, name: str, spec: Mapping[str, Any], *, namespace: str = "team", heard: bool = True
    ) -> str:
        """Create or change an object; ``heard`` False keeps it from the watch. Returns its uid."""
        known = self.objects.get((kind, namespace, name))
        number = next(self._versions)
        if known is None:
            metadata = {
                "uid": f"uid-{number}",
                "name": name,
                "namespace": namespace,
                "generation": 1,
                "creationTimestamp": f"2026-01-01T00:00:{number % 60:02d}Z",
            }
            known = {"metadata": metadata, "spec": dict(spec), "status": {}}
        elif known["spec"] != spec:
            known = {**known, "metadata": {**known["metadata"]}, "spec": dict(spec)}
            known["metadata"]["generation"] += 1
        known["metadata"]["resourceVersion"] = str(number)
        self.objects[kind, namespace, name] = known
        if heard:
            self._tell(kind, known)
        return str(known["metadata"]["uid"])

    def delete(self, kind: Kind, name: str, *, namespace: str = "team", heard: bool = True) -> None:
        """Delete an object; ``heard`` False is a deletion that a watch never told of."""
        gone = self.objects.pop((kind, namespace, name))
        if heard:
            for cache in self.watchers:
                cache.see(kind, gone, deleted=True)

    def status(self, kind: Kind, name: str, namespace: str = "team") -> Raw:
        """Return an object's status."""
        status: Raw = self.objects[kind, namespace, name]["status"]
        return status

    def ready(self, kind: Kind, name: str, namespace: str = "team") -> tuple[str, str]:
        """Return status and reason of its condition Ready."""
        condition = find(self.status(kind, name, namespace), "Ready")
        return str(condition.get("status")), str(condition.get("reason"))

    def watch(self) -> ObjectCache:
        """Return a cache that hears of everything from here on, after a first list."""
        cache = ObjectCache()
        for (kind, _, _), raw in self.objects.items():
            cache.see(kind, raw, listed=True)
        self.watchers = [cache]
        return cache

    async def served(self) -> frozenset[str]:
        await self._call("served")
        return self.serves

    async def list(self, kind: Kind, namespace: str | None) -> list[Mapping[str, Any]]:
        self.lists[namespace] += 1
        await self._call("list", namespace)
        if self.lists_nothing:
            return []
        found = [raw for (k, n, _), raw in self.objects.items() if k is kind and namespace in {None, n}]
        return list(found)

    async def get(self, identity: Identity) -> Mapping[str, Any] | None:
        await self._call("get", identity.namespace)
        return self.objects.get((identity.kind, identity.namespace, identity.name))

    async def patch_status(self, identity: Identity, patch: Mapping[str, Any]) -> Mapping[str, Any]:
        await self._call("patch_status", identity.namespace)
        known = self.objects.get((identity.kind, identity.namespace, identity.name))
        if known is None:
            raise ClusterRefused("not found", 404)
        self.writes += 1
        changed = {**known, "metadata": {**known["metadata"], "resourceVersion": str(next(self._versions))}}
        changed["status"] = merged(known["status"], patch)
        self.objects[identity.kind, identity.namespace, identity.name] = changed
        self._tell(identity.kind, changed)
        return changed

    async def create(self, identity: Identity, reason: str, message: str, *, warning: bool) -> None:
        await self._call("create", identity.namespace)
        self.events.append((identity.name, reason))
        self.notes.append(f"{'Warning' if warning else 'Normal'}: {message}")

    async def scale(self, namespace: str, name: str) -> Scale | None:
        await self._call("scale", namespace)
        if name in self.silent:
            await self.silent[name].wait()
        return self.scales.get((namespace, name))

    async def set_scale(self, namespace: str, name: str, replicas: int, version: str) -> bool:
        await self._call("set_scale", namespace)
        known = self.scales[namespace, name]
        if known.version != version:
            return False
        self.scales[namespace, name] = Scale(replicas, str(next(self._versions)), known.selector)
        return True

    async def pods(self, namespace: str, selector: str) -> Pods:
        await self._call("pods", namespace)
        return [*self.running.get(selector, ())]

    async def autoscalers(self, namespace: str) -> dict[str, Sequence[str]]:
        await self._call("autoscalers", namespace)
        return self.rivals

    async def _call(self, name: str, namespace: str | None = None) -> None:
        self.calls.append(name)
        self.before_call(name)
        await asyncio.sleep(0)
        if self.away:
            raise ClusterUnavailable(f"{name}: connection refused")
        if name in self.refuses or namespace in self.forbidden:
            raise ClusterRefused(f"{name}: forbidden", 403)

    def _tell(self, kind: Kind, raw: Raw) -> None:
        for cache in self.watchers:
            cache.see(kind, raw)


def merged(before: Mapping[str, Any], patch: Mapping[str, Any]) -> Raw:
    """Apply a merge patch (RFC 7386)."""
    result = dict(before)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            old = result.get(name)
            result[name] = merged(old if isinstance(old, Mapping) else {}, value)
        else:
            result[name] = value
    return result


@dataclass
class Led:
    """One leader at work on a cluster in memory."""

    cluster: MemoryCluster
    cache: ObjectCache
    reconciler: Reconciler
    metrics: Metrics
    beats: Beats
    task: asyncio.Task[None]

    @property
    def passes(self) -> int:
        """Passes of its reconciler."""
        samples = [sample for family in self.metrics.passes.collect() for sample in family.samples]
        return int(next(sample.value for sample in samples if sample.name.endswith("_count")))

    async def until(self, holds: Callable[[], Any]) -> None:
        """Wait until something holds; fail when the leader ends, or after 20 s."""
        async with asyncio.timeout(20):
            while not holds():
                assert not self.task.done(), self.task
                await asyncio.sleep(0.01)


@asynccontextmanager
async def leading(
    cluster: MemoryCluster,
    database_url: str,
    *,
    cluster_id: str = "c1",
    listen_url: Callable[[], str] | None = None,
    **settings: Any,
) -> AsyncIterator[Led]:
    """Lead as long as the block runs, as the process does."""
    quick: dict[str, Any] = {"numbers_every": 0.1, "drift_every": 0.5, "list_every": 600.0}
    config = Config(database_url=database_url, cluster_id=cluster_id, **{**quick, **settings})
    database = Database(lambda: database_url, cluster_id)
    cache, metrics, beats = cluster.watch(), Metrics(), Beats()
    leader = Leader(
        cache,
        cluster,
        cluster,
        cluster,
        database,
        listen_url=listen_url or (lambda: database_url),
        config=config,
        cluster_id=cluster_id,
        metrics=metrics,
        beats=beats,
    )
    task = asyncio.create_task(leader.work())
    try:
        yield Led(cluster, cache, leader.reconciler, metrics, beats, task)
    finally:
        task.cancel()
        await asyncio.wait([task])
        await database.close()
