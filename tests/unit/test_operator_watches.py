"""The watch of each namespace apart, with an API server that is played and feeds that end when the test says so."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tidegate.errors import ConfigurationError
from tidegate_operator.caches import ObjectCache
from tidegate_operator.cluster.preflight import check
from tidegate_operator.errors import ClusterRefused, ClusterUnavailable
from tidegate_operator.metrics import Metrics
from tidegate_operator.resources import Kind
from tidegate_operator.watches import Watches


class Server:
    """What is asked before a watch, and the watches themselves."""

    def __init__(self) -> None:
        self.forbidden: set[str | None] = set()
        self.away = False
        self.serves = frozenset({"limits", "queues"})
        self.began: Counter[str | None] = Counter()
        self.running: dict[str | None, asyncio.Future[None]] = {}

    async def served(self) -> frozenset[str]:
        if self.away:
            raise ClusterUnavailable("away")
        return self.serves

    async def reach(self, kind: Kind, namespace: str | None) -> None:
        if namespace in self.forbidden:
            raise ClusterRefused(f"list of {kind.plural}: forbidden", 403)

    async def feed(self, namespace: str | None, stop: asyncio.Event, begun: Callable[[], None]) -> None:
        self.began[namespace] += 1
        begun()
        ended = self.running[namespace] = asyncio.get_running_loop().create_future()
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([ended, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if ended.done():
            await ended


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr("tidegate_operator.watches.RETRY", 0.01)
    monkeypatch.setattr("tidegate_operator.watches.REFUSED_RETRY", 0.01)
    return Server()


class Watching:
    def __init__(self, watches: Watches, metrics: Metrics, cache: ObjectCache, task: asyncio.Task[None]) -> None:
        self.watches, self.metrics, self.cache, self.task = watches, metrics, cache, task

    def unwatched(self, namespace: str) -> float:
        found: float = self.metrics.unwatched.labels(namespace)._value.get()
        return found

    async def until(self, holds: Callable[[], Any]) -> None:
        async with asyncio.timeout(20):
            while not holds():
                assert not self.task.done(), self.task
                await asyncio.sleep(0)


@asynccontextmanager
async def watching(server: Server, *namespaces: str) -> AsyncIterator[Watching]:
    metrics, cache, stop = Metrics(), ObjectCache(), asyncio.Event()
    watches = Watches(cache, server, server.feed, namespaces=namespaces, metrics=metrics, started=lambda: None)
    task = asyncio.create_task(watches.run(stop))
    try:
        yield Watching(watches, metrics, cache, task)
    finally:
        stop.set()
        async with asyncio.timeout(20):
            await asyncio.wait([task])


async def test_a_namespace_that_may_not_be_read_stops_no_other_and_is_taken_up_later(server: Server) -> None:
    server.forbidden = {"b"}
    async with watching(server, "a", "b") as it:
        await it.until(lambda: server.began["a"] == 1 and it.unwatched("b") == 1)
        assert it.watches.problem is None
        assert (it.unwatched("a"), server.began["b"]) == (0, 0)
        server.forbidden = set()
        await it.until(lambda: server.began["b"] == 1)
        assert it.unwatched("b") == 0
        assert server.began["a"] == 1


async def test_a_watch_that_ends_begins_anew_and_what_it_missed_is_listed(server: Server) -> None:
    async with watching(server, "a", "b") as it:
        await it.until(lambda: server.began["a"] == server.began["b"] == 1)
        assert not it.cache.list_wanted.is_set()
        server.forbidden = {"b"}
        server.running["b"].set_exception(RuntimeError("403 after two minutes of it"))
        await it.until(lambda: it.unwatched("b") == 1)
        server.running["a"].set_result(None)
        await it.until(lambda: server.began["a"] == 2)
        assert it.cache.relisted
        assert server.began["b"] == 1
        assert it.metrics.failures.labels("watching")._value.get() >= 1


async def test_a_right_that_is_taken_away_is_found_before_the_watch_says_so(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate_operator.watches.CHECK_EVERY", 0.01)
    async with watching(server, "a", "b") as it:
        await it.until(lambda: server.began["a"] == server.began["b"] == 1)
        server.forbidden = {"b"}
        await it.until(lambda: it.unwatched("b") == 1)
        server.forbidden = set()
        await it.until(lambda: server.began["b"] == 2)
        assert server.began["a"] == 1


async def test_nothing_that_may_be_read_is_no_readiness(server: Server) -> None:
    server.forbidden = {"a", "b"}
    async with watching(server, "a", "b") as it:
        assert it.watches.problem == "the watch has not begun"
        await it.until(lambda: it.unwatched("a") == it.unwatched("b") == 1)
        assert it.watches.problem == "none of the namespaces may be read: a, b"
        server.forbidden = {"a"}
        await it.until(lambda: it.watches.problem is None)


async def test_an_api_server_that_is_away_ends_nothing(server: Server) -> None:
    async with watching(server) as it:
        await it.until(lambda: server.began[None] == 1)
        server.away = True
        server.running[None].set_exception(RuntimeError("no answer for two minutes"))
        await it.until(lambda: it.metrics.failures.labels("watching")._value.get() >= 3)
        server.away = False
        await it.until(lambda: server.began[None] == 2)


@pytest.mark.parametrize("missing", ["the right", "the definition"])
async def test_what_only_a_person_can_add_to_the_whole_cluster_ends_it(server: Server, missing: str) -> None:
    async with watching(server) as it:
        await it.until(lambda: server.began[None] == 1)
        if missing == "the right":
            server.forbidden = {None}
        else:
            server.serves = frozenset({"limits"})
        server.running[None].set_result(None)
        async with asyncio.timeout(20):
            await asyncio.wait([it.task])
        assert isinstance(it.task.exception(), ConfigurationError)


async def test_the_look_before_the_start_asks_for_one_namespace_that_may_be_read(server: Server) -> None:
    server.forbidden = {"b"}
    await check(server, ["a", "b"])
    server.forbidden = {"a", "b"}
    with pytest.raises(ConfigurationError, match=r"may not list limits.tidegate.dev in namespace a[^!]*namespace b"):
        await check(server, ["a", "b"])
    server.forbidden = {None}
    with pytest.raises(ConfigurationError, match=r"may not list limits\.tidegate\.dev in the cluster"):
        await check(server, [])
