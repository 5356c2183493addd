"""A database that goes away and comes back, and a URL that rotates, under a leader at work."""

from __future__ import annotations

import asyncio
from pathlib import Path
from secrets import token_hex
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from tests.faults.proxies import Proxy
from tests.postgres.operator_clusters import MemoryCluster, leading
from tidegate.errors import DatabaseUnavailable
from tidegate.store.embedded import EmbeddedServer
from tidegate.store.listening import Listener
from tidegate.store.operators import OperatorStore
from tidegate_operator.cluster.deployments import Scale
from tidegate_operator.conditions import find
from tidegate_operator.databases import Database, from_file
from tidegate_operator.notifications import watcher_of
from tidegate_operator.resources import Kind

LIMIT = Kind.LIMIT
ROWS = "select key, max_running from tidegate.limits"
READY = ("True", "InForce")


async def test_what_changes_while_the_database_is_away_is_caught_up_with(
    server_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate_operator.reconciler.SAY_AFTER", 0.1)
    monkeypatch.setattr("tidegate_operator.reconciler.MAX_BACKOFF", 0.5)
    cluster = MemoryCluster()
    cluster.apply(LIMIT, "changed", {"maxRunning": 1})
    cluster.apply(LIMIT, "deleted", {"maxRunning": 1, "deletionGracePeriod": "0s"})
    cluster.apply(LIMIT, "replaced", {"maxRunning": 1, "deletionGracePeriod": "0s"})
    server = EmbeddedServer(server_folder)
    await asyncio.to_thread(server.start)
    url = server.url
    try:
        async with leading(cluster, url) as leader:
            await leader.until(lambda: all(cluster.ready(k, n) == READY for k, _, n in cluster.objects))
            await asyncio.to_thread(server.stop)
            away = ("False", "DatabaseUnavailable")
            await leader.until(lambda: all(cluster.ready(k, n) == away for k, _, n in cluster.objects))
            cluster.apply(LIMIT, "created", {"maxRunning": 2})
            cluster.apply(LIMIT, "changed", {"maxRunning": 2})
            cluster.delete(LIMIT, "deleted")
            cluster.delete(LIMIT, "replaced")
            cluster.apply(LIMIT, "replaced", {"maxRunning": 2})
            await leader.until(lambda: cluster.ready(LIMIT, "created") == away)
            assert cluster.status(LIMIT, "changed")["observedGeneration"] == 1
            server = EmbeddedServer(server_folder, port=urlsplit(url).port)
            await asyncio.to_thread(server.start)
            await leader.until(lambda: all(cluster.ready(k, n) == READY for k, _, n in cluster.objects))
            connection = await asyncpg.connect(url)
            async with asyncio.timeout(20):
                wanted = {"created": 2, "changed": 2, "replaced": 2}
                while {row["key"]: row["max_running"] for row in await connection.fetch(ROWS)} != wanted:
                    await asyncio.sleep(0.02)
            await connection.close()
    finally:
        await asyncio.to_thread(server.stop)


async def test_scaling_says_that_it_cannot_see_the_demand(server_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate_operator.reconciler.SAY_AFTER", 0.1)
    monkeypatch.setattr("tidegate_operator.reconciler.MAX_BACKOFF", 0.5)
    cluster = MemoryCluster()
    cluster.scales["team", "mailers"] = Scale(2, "1", "app=mailers")
    cluster.apply(Kind.QUEUE, "mail", {"workers": {"deploymentRef": {"name": "mailers"}, "minReplicas": 2}})
    cluster.apply(Kind.QUEUE, "off", {"workers": {"deploymentRef": {"name": "others"}}, "scaling": {"mode": "Off"}})

    def active(name: str) -> str:
        return str(find(cluster.status(Kind.QUEUE, name), "ScalingActive").get("reason"))

    server = EmbeddedServer(server_folder)
    await asyncio.to_thread(server.start)
    url = server.url
    try:
        async with leading(cluster, url) as leader:
            await leader.until(lambda: active("mail") == "ByDemand")
            await asyncio.to_thread(server.stop)
            await leader.until(lambda: active("mail") == "DatabaseUnavailable")
            assert active("off") == "DeploymentNotFound"
            written = cluster.calls.count("set_scale")
        # a leader that never saw the database says so too
        cluster.apply(Kind.QUEUE, "new", {"workers": {"deploymentRef": {"name": "mailers"}, "minReplicas": 2}})
        async with leading(cluster, url) as leader:
            await leader.until(lambda: active("new") == "DatabaseUnavailable")
            assert cluster.calls.count("set_scale") == written
            server = EmbeddedServer(server_folder, port=urlsplit(url).port)
            await asyncio.to_thread(server.start)
            await leader.until(lambda: active("mail") == active("new") == "ByDemand")
    finally:
        await asyncio.to_thread(server.stop)


async def test_a_rotated_url_is_taken_up_without_a_restart(
    database_url: str, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    role = "rotated_role"
    await connection.execute(f"create role {role} superuser login password 'later'")  # a name of ours
    try:
        parts = urlsplit(database_url)
        rotated = urlunsplit(parts._replace(netloc=f"{role}:later@{parts.hostname}:{parts.port}"))
        file = tmp_path / "url"
        file.write_text(database_url)
        database = Database(from_file(file), "c1")
        await (await database.store()).clock()
        file.write_text(f"{rotated}\n")
        await (await database.store()).clock()
        users = "select array_agg(distinct usename) from pg_stat_activity where application_name = 'tidegate operator'"
        assert await connection.fetchval(users) == [role]
        await database.close()
    finally:
        await connection.execute(f"drop role {role}")


async def test_the_part_of_an_operator_is_enough_for_it(database_url: str, connection: asyncpg.Connection) -> None:
    role = f"tidegate_test_{token_hex(4)}"
    await connection.execute(f"create role {role} login password 'mine'")
    await connection.execute("select tidegate.grant_access($1, 'operator')", role)
    parts = urlsplit(database_url)
    limited = urlunsplit(parts._replace(netloc=f"{role}:mine@{parts.hostname}:{parts.port}"))
    cluster = MemoryCluster()
    cluster.apply(LIMIT, "vendor-x", {"maxRunning": 1, "deletionGracePeriod": "0s"})
    cluster.apply(Kind.QUEUE, "mail", {})
    try:
        async with leading(cluster, limited) as leader:
            await leader.until(lambda: all(cluster.ready(k, n) == READY for k, _, n in cluster.objects))
            cluster.delete(LIMIT, "vendor-x")
            async with asyncio.timeout(20):
                while await connection.fetch(ROWS):
                    await asyncio.sleep(0.02)
        store = OperatorStore(limited, "c1")
        await store.maintain(watcher_of("c1"))
        await store.close()
    finally:
        await connection.execute(f"drop owned by {role}; drop role {role}")


async def test_a_connection_for_notifications_that_nothing_comes_through_is_found(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network that drops packets breaks no connection: whoever only listens would be deaf for hours."""
    monkeypatch.setattr("tidegate.store.listening.CONNECT_TIMEOUT", 1.0)
    proxy, opened = Proxy(database_url), asyncio.Event()
    await proxy.start()
    try:
        listening = asyncio.create_task(Listener(proxy.url, check_every=0.05).listen(opened.set, lambda _: None))
        async with asyncio.timeout(20):
            await opened.wait()
            while not any(text.startswith("select 1") for _, text in proxy.texts):
                await asyncio.sleep(0.01)
        assert not listening.done()
        proxy.swallow()
        async with asyncio.timeout(20):
            with pytest.raises(DatabaseUnavailable):
                await listening
    finally:
        await proxy.close()
