"""The reconciler against a real database: what rows and statuses come to, whatever is missed, lost or lied about."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from tests.commands import tidegate_command
from tests.postgres.operator_clusters import MemoryCluster, leading
from tidegate.ports import OfficeLost
from tidegate.store.operators import OperatorStore
from tidegate.store.queues import set_queue
from tidegate_operator.beats import LoopEnded
from tidegate_operator.conditions import find
from tidegate_operator.keepers import AT_ONCE, Keeper
from tidegate_operator.notifications import Doorman
from tidegate_operator.reconcile.patterns import KeyPatterns
from tidegate_operator.reconcile.ticks import SOONEST
from tidegate_operator.resources import Kind
from tidegate_operator.scalers import Scaler
from tidegate_operator.writers import PAUSE

LIMIT, QUEUE = Kind.LIMIT, Kind.QUEUE
READY = ("True", "InForce")


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


NOTES_OPENINGS = """
create table public.opened(at timestamptz);
create function public.note() returns trigger language plpgsql as $$
  begin if new.max_running is null then insert into public.opened values (now()); end if; return null; end $$;
create trigger note after update on tidegate.keys for each row execute function public.note();
"""
"""Whenever a key is without a limit for a moment, that is remembered."""


async def policy(connection: Any, key: str = "vendor-x") -> tuple[Any, ...] | None:
    row = await connection.fetchrow("select max_running, owner->>'uid' from tidegate.limits where key = $1", key)
    return tuple(row) if row else None


async def eventually(connection: Any, sql: str, wanted: Any) -> None:
    async with asyncio.timeout(20):
        while await connection.fetchval(sql) != wanted:
            await asyncio.sleep(0.02)


async def test_a_limit_becomes_a_row_and_is_shown_its_numbers(
    cluster: MemoryCluster, database_url: str, connection: Any
) -> None:
    uid = cluster.apply(LIMIT, "vendor-x", {"maxRunning": 4})
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: cluster.ready(LIMIT, "vendor-x") == READY)
        assert await policy(connection) == (4, uid)
        await connection.execute("select tidegate.enqueue('mail', 'a', limit_key => 'vendor-x')")
        await leader.until(lambda: cluster.status(LIMIT, "vendor-x").get("waiting") == 1)
        cluster.apply(LIMIT, "vendor-x", {"maxRunning": 5})
        await leader.until(lambda: cluster.status(LIMIT, "vendor-x").get("observedGeneration") == 2)
        assert await policy(connection) == (5, uid)


async def test_a_queue_becomes_a_row(cluster: MemoryCluster, database_url: str, connection: Any) -> None:
    cluster.apply(QUEUE, "mail", {"order": "Fair", "suspend": True, "defaults": {"priority": 7}})
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: cluster.ready(QUEUE, "mail") == READY)
        row = await connection.fetchrow("select declared_order, suspended, default_priority from tidegate.queues")
        assert tuple(row) == ("fair", True, 7)
        await set_queue(connection, "mail", {"held_by_hand": True})
        await leader.until(lambda: cluster.status(QUEUE, "mail")["conditions"][-1]["status"] == "True")
        assert await connection.fetchval("select held_by_hand from tidegate.queues")


async def test_nothing_is_written_when_nothing_changes(
    cluster: MemoryCluster, database_url: str, connection: Any
) -> None:
    for number in range(20):
        cluster.apply(LIMIT, f"l{number}", {"maxRunning": number, "rate": {"maxStarts": 3, "window": "1m"}})
        cluster.apply(QUEUE, f"q{number}", {})
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: all(cluster.ready(k, n) == READY for k, _, n in cluster.objects))
        await eventually(connection, "select count(*) from tidegate.sleepers", 20)
        rows = await connection.fetchval(VERSIONS)
        calls, passes = len(cluster.calls), leader.passes
        # with a look at the numbers every 0.1 s and at every row every 0.5 s
        await leader.until(lambda: leader.passes > passes + 11)
        assert len(cluster.calls) == calls
        assert await connection.fetchval(VERSIONS) == rows


VERSIONS = """
select array_agg(version order by version) from (
  select 'key ' || key || ' ' || xmin || ctid::text version from tidegate.keys
  union all select 'queue ' || name || ' ' || xmin || ctid::text from tidegate.queues
  union all select 'sleeper ' || queue || ' ' || xmin || ctid::text from tidegate.sleepers
  union all select 'epoch ' || cluster || ' ' || xmin || xmax || ctid::text from tidegate.epochs) v
"""
"""Which version of every row there is: an update, and a lock of the epoch, makes another one."""


async def test_a_deleted_limit_stays_for_its_grace_and_then_goes(
    cluster: MemoryCluster, database_url: str, connection: Any
) -> None:
    cluster.apply(LIMIT, "vendor-x", {"maxRunning": 4, "deletionGracePeriod": "1s"})
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: cluster.ready(LIMIT, "vendor-x") == READY)
        cluster.delete(LIMIT, "vendor-x")
        marked = "select count(*) from tidegate.limits where owner ? 'orphaned_at' and max_running = 4"
        await eventually(connection, marked, 1)
        await eventually(connection, "select count(*) from tidegate.limits", 0)
        assert await connection.fetchval("select owner from tidegate.keys where key = 'vendor-x'") is None


async def test_a_retained_limit_outlives_its_object_without_an_owner(
    cluster: MemoryCluster, database_url: str, connection: Any
) -> None:
    cluster.apply(LIMIT, "vendor-x", {"maxRunning": 4, "deletionGracePeriod": "0s", "deletionPolicy": "Retain"})
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: cluster.ready(LIMIT, "vendor-x") == READY)
        cluster.delete(LIMIT, "vendor-x")
        await eventually(connection, "select count(*) from tidegate.limits where owner is null", 1)
        assert await policy(connection) == (4, None)
        cluster.apply(LIMIT, "vendor-x", {"maxRunning": 3})
        await leader.until(lambda: cluster.ready(LIMIT, "vendor-x") == READY)
        await leader.until(lambda: ("vendor-x", "Adopted") in cluster.events)


async def test_a_queue_without_its_object_keeps_its_jobs_and_loses_its_settings(
    cluster: MemoryCluster, database_url: str, connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate_operator.reconcile.queues.DELETION_GRACE_PERIOD", timedelta(0))
    cluster.apply(QUEUE, "mail", {"order": "Fair", "suspend": True})
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: cluster.ready(QUEUE, "mail") == READY)
        await connection.execute("select tidegate.enqueue('mail', 'a')")
        cluster.delete(QUEUE, "mail")
        await eventually(
            connection, "select count(*) from tidegate.queues where owner is null and declared_order = 'priority'", 1
        )
        assert await connection.fetchval("select count(*) from tidegate.jobs") == 1


@pytest.mark.parametrize("heard", [True, False], ids=["the watch tells", "the watch missed both"])
async def test_a_replace_never_opens_the_limit(
    cluster: MemoryCluster, database_url: str, connection: Any, heard: bool
) -> None:
    cluster.apply(LIMIT, "vendor-x", {"maxRunning": 4, "deletionGracePeriod": "0s"})
    await connection.execute(NOTES_OPENINGS)
    async with leading(cluster, database_url, list_every=0.2) as leader:
        await leader.until(lambda: cluster.ready(LIMIT, "vendor-x") == READY)
        for running in (5, 6, 7):
            cluster.delete(LIMIT, "vendor-x", heard=heard)
            uid = cluster.apply(LIMIT, "vendor-x", {"maxRunning": running, "deletionGracePeriod": "0s"}, heard=heard)
            await leader.until(lambda: cluster.ready(LIMIT, "vendor-x") == READY)
            assert await policy(connection) == (running, uid)
        assert await connection.fetchval("select count(*) from public.opened") == 0


async def test_two_objects_for_one_key(cluster: MemoryCluster, database_url: str, connection: Any) -> None:
    first = cluster.apply(LIMIT, "one", {"key": "k", "maxRunning": 1})
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: cluster.ready(LIMIT, "one") == READY)
        second = cluster.apply(LIMIT, "two", {"key": "k", "maxRunning": 2}, namespace="other")
        await leader.until(lambda: cluster.ready(LIMIT, "two", "other") == ("False", "KeyConflict"))
        assert cluster.status(LIMIT, "two", "other")["owner"]["uid"] == first
        assert await policy(connection, "k") == (1, first)
        await leader.until(lambda: ("two", "KeyConflict") in cluster.events)
        cluster.delete(LIMIT, "one")
        await leader.until(lambda: cluster.ready(LIMIT, "two", "other") == READY)
        assert await policy(connection, "k") == (2, second)
        assert "owner" not in cluster.status(LIMIT, "two", "other")


async def test_drift_is_put_back_counted_and_told(cluster: MemoryCluster, database_url: str, connection: Any) -> None:
    uid = cluster.apply(LIMIT, "vendor-x", {"maxRunning": 4})
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: cluster.ready(LIMIT, "vendor-x") == READY)
        for times in (1, 2):
            await connection.execute("select tidegate.set_limit('vendor-x', max_running => 100)")
            await leader.until(partial(_is_corrected, cluster, times))
            assert await policy(connection) == (4, uid)
        assert cluster.events.count(("vendor-x", "DriftCorrected")) == 2


def _is_corrected(cluster: MemoryCluster, times: int) -> bool:
    return cluster.status(LIMIT, "vendor-x").get("driftCorrections") == times


async def test_rows_of_another_cluster_are_left_alone(
    cluster: MemoryCluster, database_url: str, connection: Any
) -> None:
    elsewhere = MemoryCluster()
    elsewhere.apply(LIMIT, "vendor-x", {"maxRunning": 1})
    async with leading(elsewhere, database_url, cluster_id="c2") as other:
        await other.until(lambda: elsewhere.ready(LIMIT, "vendor-x") == READY)
        cluster.apply(LIMIT, "vendor-x", {"maxRunning": 9})
        async with leading(cluster, database_url) as leader:
            await leader.until(lambda: cluster.ready(LIMIT, "vendor-x") == ("False", "KeyConflict"))
            cluster.delete(LIMIT, "vendor-x")
            cluster.apply(LIMIT, "other-key", {"maxRunning": 9})
            await leader.until(lambda: cluster.ready(LIMIT, "other-key") == READY)
        assert (await policy(connection) or ())[0] == 1


async def test_a_namespace_without_the_right_owns_nothing(
    cluster: MemoryCluster, database_url: str, connection: Any
) -> None:
    cluster.apply(LIMIT, "vendor-x", {"maxRunning": 4})
    cluster.apply(LIMIT, "team-y", {"maxRunning": 4})
    async with leading(cluster, database_url, patterns=KeyPatterns({"team": ["team-*"]})) as leader:
        await leader.until(lambda: cluster.ready(LIMIT, "team-y") == READY)
        await leader.until(lambda: cluster.ready(LIMIT, "vendor-x") == ("False", "KeyNotAllowed"))
        assert await policy(connection) is None


async def test_an_object_that_cannot_be_read_leaves_its_row_in_force(
    cluster: MemoryCluster, database_url: str, connection: Any
) -> None:
    uid = cluster.apply(LIMIT, "vendor-x", {"maxRunning": 4, "deletionGracePeriod": "0s"})
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: cluster.ready(LIMIT, "vendor-x") == READY)
        cluster.apply(LIMIT, "vendor-x", {"maxRunning": 4, "ofALaterRelease": True})
        await leader.until(lambda: cluster.ready(LIMIT, "vendor-x") == ("False", "Invalid"))
        assert await policy(connection) == (4, uid)


async def test_an_empty_list_marks_and_sweeps_nothing(
    cluster: MemoryCluster, database_url: str, connection: Any
) -> None:
    for number in range(5):
        cluster.apply(LIMIT, f"l{number}", {"maxRunning": 4, "deletionGracePeriod": "0s"})
    async with leading(cluster, database_url, list_every=0.1) as leader:
        await leader.until(lambda: all(cluster.ready(k, n) == READY for k, _, n in cluster.objects))
        cluster.lists_nothing = True
        lists = cluster.calls.count("list")
        await leader.until(lambda: cluster.calls.count("list") > lists + 10)
        assert await connection.fetchval("select count(*) from tidegate.limits where not owner ? 'orphaned_at'") == 5
        cluster.lists_nothing = False
        await leader.until(lambda: len(leader.cache) == 5)
        cluster.apply(LIMIT, "l0", {"maxRunning": 9, "deletionGracePeriod": "0s"})
        await leader.until(lambda: cluster.status(LIMIT, "l0").get("observedGeneration") == 2)


async def test_a_definition_that_is_not_served_sweeps_nothing(
    cluster: MemoryCluster, database_url: str, connection: Any
) -> None:
    cluster.apply(LIMIT, "vendor-x", {"maxRunning": 4, "deletionGracePeriod": "0s"})
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: cluster.ready(LIMIT, "vendor-x") == READY)
        cluster.serves = frozenset()
        cluster.delete(LIMIT, "vendor-x")
        asked = cluster.calls.count("served")
        await leader.until(lambda: cluster.calls.count("served") > asked + 2)
        assert await policy(connection) is not None
        cluster.serves = frozenset({"limits"})
        await eventually(connection, "select count(*) from tidegate.limits", 0)


async def test_no_more_rows_than_allowed_go_within_a_minute(
    cluster: MemoryCluster, database_url: str, connection: Any
) -> None:
    for number in range(6):
        cluster.apply(LIMIT, f"l{number}", {"maxRunning": 4, "deletionGracePeriod": "0s"})
    async with leading(cluster, database_url, sweep_a_minute=4) as leader:
        await leader.until(lambda: all(cluster.ready(k, n) == READY for k, _, n in cluster.objects))
        for number in range(6):
            cluster.delete(LIMIT, f"l{number}")
        await eventually(connection, "select count(*) from tidegate.limits", 2)
        asked = cluster.calls.count("get")
        await leader.until(lambda: cluster.calls.count("get") > asked + 2)
        assert await connection.fetchval("select count(*) from tidegate.limits") == 2


async def test_a_deletion_that_the_watch_missed_is_found_when_it_begins_anew(
    cluster: MemoryCluster, database_url: str, connection: Any
) -> None:
    cluster.apply(LIMIT, "gone", {"maxRunning": 4, "deletionGracePeriod": "0s"})
    cluster.apply(LIMIT, "stays", {"maxRunning": 4})
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: all(cluster.ready(k, n) == READY for k, _, n in cluster.objects))
        cluster.delete(LIMIT, "gone", heard=False)
        leader.cache.see(LIMIT, cluster.objects[LIMIT, "team", "stays"], listed=True)
        await eventually(connection, "select count(*) from tidegate.limits", 1)


async def test_an_api_server_that_is_away_changes_nothing_and_is_caught_up_with(
    cluster: MemoryCluster, database_url: str, connection: Any
) -> None:
    uid = cluster.apply(LIMIT, "vendor-x", {"maxRunning": 4, "deletionGracePeriod": "0s"})
    async with leading(cluster, database_url, list_every=0.1) as leader:
        await leader.until(lambda: cluster.ready(LIMIT, "vendor-x") == READY)
        cluster.away = True
        calls = len(cluster.calls)
        await leader.until(lambda: len(cluster.calls) > calls + 2)
        assert await policy(connection) == (4, uid)
        cluster.away = False
        cluster.apply(LIMIT, "vendor-x", {"maxRunning": 5, "deletionGracePeriod": "0s"}, heard=False)
        await leader.until(lambda: cluster.status(LIMIT, "vendor-x").get("observedGeneration") == 2)
        assert await policy(connection) == (5, uid)


async def test_a_key_that_somebody_holds_is_written_once_it_is_let_go(
    cluster: MemoryCluster, database_url: str, connection: Any
) -> None:
    await connection.execute("select tidegate.set_limit('held', max_running => 1)")
    async with leading(cluster, database_url) as leader, asyncio.timeout(30):
        async with connection.transaction():
            await connection.execute("select from tidegate.keys where key = 'held' for no key update")
            cluster.apply(LIMIT, "held", {"maxRunning": 4})
            cluster.apply(LIMIT, "free", {"maxRunning": 4})
            await leader.until(lambda: cluster.ready(LIMIT, "free") == READY)
            await leader.until(lambda: cluster.ready(LIMIT, "held") == ("False", "Pending"))
        await leader.until(lambda: cluster.ready(LIMIT, "held") == READY)


async def test_a_second_leader_ends_the_first_at_its_next_write(cluster: MemoryCluster, database_url: str) -> None:
    cluster.apply(LIMIT, "vendor-x", {"maxRunning": 4})
    async with leading(cluster, database_url) as first:
        await first.until(lambda: cluster.ready(LIMIT, "vendor-x") == READY)
        caches = list(cluster.watchers)
        async with leading(cluster, database_url) as second:
            await second.until(lambda: second.metrics.database_up._value.get() == 1)
            cluster.watchers += caches
            cluster.apply(LIMIT, "vendor-x", {"maxRunning": 5})
            await second.until(lambda: cluster.status(LIMIT, "vendor-x").get("observedGeneration") == 2)
            cluster.apply(LIMIT, "new", {"maxRunning": 5})
            await asyncio.wait([first.task], timeout=20)
            assert first.task.done()
            assert not second.task.done()


@pytest.mark.parametrize("point", range(1, 13))
async def test_a_leader_that_ends_anywhere_is_succeeded(
    cluster: MemoryCluster, database_url: str, connection: Any, point: int
) -> None:
    """Created, changed, replaced, deleted and drifted at once; a leader ends at its nth call of the API server."""
    cluster.apply(LIMIT, "changed", {"maxRunning": 1})
    cluster.apply(LIMIT, "replaced", {"maxRunning": 1})
    cluster.apply(LIMIT, "deleted", {"maxRunning": 1, "deletionGracePeriod": "0s"})
    cluster.apply(LIMIT, "drifted", {"maxRunning": 1})
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: all(cluster.ready(k, n) == READY for k, _, n in cluster.objects))
    cluster.apply(LIMIT, "created", {"maxRunning": 2})
    cluster.apply(LIMIT, "changed", {"maxRunning": 2})
    cluster.delete(LIMIT, "replaced")
    cluster.apply(LIMIT, "replaced", {"maxRunning": 2})
    cluster.delete(LIMIT, "deleted")
    await connection.execute("select tidegate.set_limit('drifted', max_running => 9)")
    calls = len(cluster.calls)
    async with leading(cluster, database_url) as leader:

        def end(_: str) -> None:
            if len(cluster.calls) - calls == point:
                leader.task.cancel()

        cluster.before_call = end
        async with asyncio.timeout(20):
            await asyncio.wait([leader.task])
    cluster.before_call = lambda _: None
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: all(cluster.ready(k, n) == READY for k, _, n in cluster.objects))
        await eventually(connection, "select count(*) from tidegate.limits", 4)
        rows = await connection.fetch("select key, max_running, owner->>'uid' as uid from tidegate.limits")
        uids = {name: raw["metadata"]["uid"] for (_, _, name), raw in cluster.objects.items()}
        wanted = {"created": 2, "changed": 2, "replaced": 2, "drifted": 1}
        assert {row["key"]: row["max_running"] for row in rows} == wanted
        assert {row["key"]: row["uid"] for row in rows} == uids


async def test_news_of_a_queue_without_workers_shortens_the_wait(
    cluster: MemoryCluster, database_url: str, connection: Any
) -> None:
    """The numbers are looked at once an hour here: only a notification explains what is shown."""
    cluster.apply(QUEUE, "mail", {})
    async with leading(cluster, database_url, numbers_every=3600.0, drift_every=3600.0) as leader:
        await leader.until(lambda: cluster.ready(QUEUE, "mail") == READY)
        await eventually(connection, "select count(*) from tidegate.sleepers", 1)
        listening = (
            "select count(*) from pg_stat_activity where application_name = 'tidegate listener' and state = 'idle'"
        )
        await eventually(connection, listening, 1)
        await connection.execute("select tidegate.enqueue('mail', 'a')")
        await leader.until(lambda: cluster.status(QUEUE, "mail").get("runnable") == 1)
    assert await connection.fetchval("select count(*) from tidegate.sleepers") == 0


@pytest.mark.parametrize("right", ["get", "list", "patch_status", "create"])
async def test_a_right_that_is_taken_away_holds_up_nothing_else(
    cluster: MemoryCluster, database_url: str, connection: Any, right: str
) -> None:
    cluster.apply(LIMIT, "gone", {"maxRunning": 1, "deletionGracePeriod": "0s"})
    cluster.apply(LIMIT, "changed", {"maxRunning": 1})
    async with leading(cluster, database_url, list_every=0.1) as leader:
        await leader.until(lambda: all(cluster.ready(k, n) == READY for k, _, n in cluster.objects))
        cluster.refuses = frozenset({right})
        cluster.delete(LIMIT, "gone")
        cluster.apply(LIMIT, "changed", {"maxRunning": 2})
        cluster.apply(LIMIT, "new", {"maxRunning": 3})
        await eventually(connection, "select max_running from tidegate.limits where key = 'changed'", 2)
        await eventually(connection, "select max_running from tidegate.limits where key = 'new'", 3)
        if right == "get":
            assert await policy(connection, "gone") is not None
        cluster.refuses = frozenset()
        await eventually(connection, "select count(*) from tidegate.limits where key = 'gone'", 0)
        cluster.apply(LIMIT, "new", {"maxRunning": 4})
        await leader.until(lambda: all(cluster.ready(k, n) == READY for k, _, n in cluster.objects))


async def test_an_object_that_never_could_be_read_is_told_so_at_once(
    cluster: MemoryCluster, database_url: str, connection: Any
) -> None:
    async with leading(cluster, database_url, drift_every=3600.0, numbers_every=3600.0) as leader:
        await leader.until(lambda: leader.metrics.database_up._value.get() == 1)
        cluster.apply(LIMIT, "vendor-x", {"maxRunning": 4, "ofALaterRelease": True})
        await leader.until(lambda: cluster.ready(LIMIT, "vendor-x") == ("False", "Invalid"))


async def test_a_schema_that_is_gone_is_made_again(
    cluster: MemoryCluster, database_url: str, connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate_operator.reconciler.MAX_BACKOFF", 0.2)
    cluster.apply(LIMIT, "vendor-x", {"maxRunning": 4})
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: cluster.ready(LIMIT, "vendor-x") == READY)
        await connection.execute("drop schema tidegate cascade")
        there = "select to_regclass('tidegate.keys') is not null"
        await eventually(connection, there, True)
        await eventually(connection, "select max_running from tidegate.limits where key = 'vendor-x'", 4)


async def test_a_deletion_in_the_middle_of_a_pass_ends_nothing(
    cluster: MemoryCluster, database_url: str, connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        cluster.apply(LIMIT, name, {"maxRunning": 4, "deletionGracePeriod": "0s"})
    confirm = Keeper._confirm

    async def delete_first(self: Keeper, decisions: Any, held: Any, now: Any) -> None:
        if {"first", "second"} <= decisions.keys() and (LIMIT, "team", "second") in cluster.objects:
            cluster.delete(LIMIT, "second")
        await confirm(self, decisions, held, now)

    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: cluster.ready(LIMIT, "first") == cluster.ready(LIMIT, "second") == READY)
        monkeypatch.setattr(Keeper, "_confirm", delete_first)
        await eventually(connection, "select count(*) from tidegate.limits", 1)
        assert not leader.task.done()


async def test_a_new_leader_tells_no_old_news(cluster: MemoryCluster, database_url: str) -> None:
    cluster.apply(LIMIT, "one", {"key": "k", "maxRunning": 1})
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: cluster.ready(LIMIT, "one") == READY)
        cluster.apply(LIMIT, "two", {"key": "k", "maxRunning": 2})
        await leader.until(lambda: ("two", "KeyConflict") in cluster.events)
        await leader.until(lambda: cluster.ready(LIMIT, "two") == ("False", "KeyConflict"))
    async with leading(cluster, database_url) as leader:
        cluster.apply(LIMIT, "three", {"maxRunning": 3})
        await leader.until(lambda: cluster.ready(LIMIT, "three") == READY)
    assert cluster.events.count(("two", "KeyConflict")) == 1


async def test_a_status_that_was_refused_is_written_once_it_may_be(
    cluster: MemoryCluster, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate_operator.writers.PAUSE", 0.05)
    cluster.refuses = frozenset({"patch_status"})
    cluster.apply(LIMIT, "vendor-x", {"maxRunning": 4})
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: "patch_status" in cluster.calls)
        cluster.refuses = frozenset()
        await leader.until(lambda: cluster.ready(LIMIT, "vendor-x") == READY)


async def test_a_leader_that_lost_its_office_gives_up_nothing_of_its_successor(
    cluster: MemoryCluster, database_url: str, connection: Any
) -> None:
    """Both watch the queue under one name, that of their cluster."""
    cluster.apply(QUEUE, "mail", {})
    watched = "select count(*) from tidegate.sleepers"
    async with leading(cluster, database_url) as first:
        await first.until(lambda: cluster.ready(QUEUE, "mail") == READY)
        await eventually(connection, watched, 1)
        await connection.execute("delete from tidegate.sleepers")
        async with leading(cluster, database_url) as second:
            await eventually(connection, watched, 1)
            first.task.cancel()
            await asyncio.wait([first.task], timeout=20)
            assert not second.task.done()
            assert await connection.fetchval(watched) == 1


async def test_a_queue_that_was_suspended_stays_so_when_its_object_goes(
    cluster: MemoryCluster, database_url: str, connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that a person stopped starts because its object was deleted; the next object decides again."""
    monkeypatch.setattr("tidegate_operator.reconcile.queues.DELETION_GRACE_PERIOD", timedelta(0))
    cluster.apply(QUEUE, "mail", {"order": "Fair", "suspend": True})
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: cluster.ready(QUEUE, "mail") == READY)
        cluster.delete(QUEUE, "mail")
        ended = "select count(*) from tidegate.queues where owner is null and declared_order = 'priority'"
        await eventually(connection, ended, 1)
        assert await connection.fetchval("select suspended from tidegate.queues")
        cluster.apply(QUEUE, "mail", {})
        await leader.until(lambda: cluster.ready(QUEUE, "mail") == READY)
        assert not await connection.fetchval("select suspended or held_by_hand from tidegate.queues")


@pytest.mark.parametrize(
    "case",
    [
        ("new", {"key": "k", "maxRunning": 5}, READY, {"k": 5}),
        ("old", {"key": "k", "maxRunning": 5, "ofALaterRelease": 1}, ("False", "Invalid"), {"k": 4}),
        ("old", {"key": "other", "maxRunning": 5}, READY, {"other": 5}),
    ],
    ids=["by another object", "perhaps by one that cannot be read", "not by the next object of its owner's name"],
)
async def test_a_row_that_is_asked_for_while_its_end_is_confirmed(
    cluster: MemoryCluster, database_url: str, connection: Any, monkeypatch: pytest.MonkeyPatch, case: tuple[Any, ...]
) -> None:
    """The next object comes while the answer that the owner is gone is on its way."""
    name, spec, ready, left = case
    cluster.apply(LIMIT, "old", {"key": "k", "maxRunning": 4, "deletionGracePeriod": "0s"})
    await connection.execute(NOTES_OPENINGS)
    sweep = Keeper._sweep

    async def meanwhile(self: Keeper, store: Any, epoch: int, decisions: Any, kept: Any) -> None:
        if any(each.due is not None for each in decisions.values()) and not cluster.objects:
            cluster.apply(LIMIT, name, spec)
        await sweep(self, store, epoch, decisions, kept)

    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: cluster.ready(LIMIT, "old") == READY)
        monkeypatch.setattr(Keeper, "_sweep", meanwhile)
        cluster.delete(LIMIT, "old")
        await leader.until(lambda: cluster.objects and cluster.ready(LIMIT, name) == ready)
        if "k" in left:
            passes = leader.passes
            await leader.until(lambda: leader.passes > passes + 5)
            assert await connection.fetchval("select count(*) from public.opened") == 0
        rows = "select json_object_agg(key, max_running)::text from tidegate.limits"
        await eventually(connection, rows, json.dumps(left).replace(":", " :").replace("{", "{ ").replace("}", " }"))


async def test_a_namespace_that_may_not_be_read_stops_no_other(
    cluster: MemoryCluster, database_url: str, connection: Any
) -> None:
    namespaces = ("team", "gone")
    cluster.apply(LIMIT, "vendor-x", {"maxRunning": 4})
    cluster.apply(LIMIT, "theirs", {"maxRunning": 4, "deletionGracePeriod": "0s"}, namespace="gone")
    async with leading(cluster, database_url, namespaces=namespaces) as leader:
        await leader.until(lambda: all(cluster.ready(k, n, ns) == READY for k, ns, n in cluster.objects))
    cluster.forbidden = frozenset({"gone"})
    async with leading(cluster, database_url, namespaces=namespaces) as leader:
        cluster.apply(LIMIT, "vendor-x", {"maxRunning": 5})
        await leader.until(lambda: cluster.status(LIMIT, "vendor-x").get("observedGeneration") == 2)
        # what stands there stays: nobody can tell whether its objects are gone
        cluster.delete(LIMIT, "theirs", namespace="gone")
        cluster.apply(LIMIT, "wants-it", {"key": "theirs", "maxRunning": 9})
        await leader.until(lambda: cluster.ready(LIMIT, "wants-it") == ("False", "KeyConflict"))
        assert (await policy(connection, "theirs") or ())[0] == 4
        cluster.forbidden = frozenset()
        await leader.until(lambda: cluster.ready(LIMIT, "wants-it") == READY)


async def test_a_busy_database_does_not_make_the_operator_spin(
    cluster: MemoryCluster, database_url: str, connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """News of a queue that nobody serves is worth a look at that queue, a few times a second at most."""
    cluster.apply(QUEUE, "mail", {})
    cluster.apply(QUEUE, "bulk", {})
    cluster.apply(LIMIT, "vendor-x", {"maxRunning": 4})
    async with leading(cluster, database_url, numbers_every=3600.0, drift_every=3600.0) as leader:
        await leader.until(lambda: all(cluster.ready(k, n) == READY for k, _, n in cluster.objects))
        await leader.until(lambda: leader.metrics.listening._value.get() == 1)
        await eventually(connection, "select count(*) from tidegate.sleepers", 2)
        passes = leader.passes
        leader.reconciler.hear("")
        await leader.until(lambda: leader.passes > passes)
        await connection.execute("select tidegate.enqueue('mail', 'a')")
        await leader.until(lambda: cluster.status(QUEUE, "mail").get("runnable") == 1)
        reads: list[Any] = []
        queue_numbers, limit_numbers = OperatorStore.queue_numbers, OperatorStore.limit_numbers

        async def of_queues(self: OperatorStore, names: Any) -> Any:
            reads.append([*names])
            return await queue_numbers(self, names)

        async def of_limits(self: OperatorStore, keys: Any) -> Any:
            reads.append("limits")
            return await limit_numbers(self, keys)

        monkeypatch.setattr(OperatorStore, "queue_numbers", of_queues)
        monkeypatch.setattr(OperatorStore, "limit_numbers", of_limits)
        began, passes = time.monotonic(), leader.passes
        while time.monotonic() - began < 1.5:
            leader.reconciler.hear("mail")
            leader.reconciler.hear("served by workers")
            await asyncio.sleep(0.001)
        most = (time.monotonic() - began) / SOONEST + 2
        assert 2 <= len(reads) <= most
        assert all(each == ["mail"] for each in reads)
        assert leader.passes - passes <= most


async def test_a_cluster_under_another_id_takes_over_what_it_marked_with_the_former(
    cluster: MemoryCluster, database_url: str, connection: Any
) -> None:
    uid = cluster.apply(LIMIT, "vendor-x", {"maxRunning": 4, "deletionGracePeriod": "0s"})
    cluster.apply(LIMIT, "gone", {"maxRunning": 4, "deletionGracePeriod": "0s"})
    cluster.apply(QUEUE, "mail", {"order": "Fair"})
    async with leading(cluster, database_url, cluster_id="old") as old:
        await old.until(lambda: all(cluster.ready(k, n) == READY for k, _, n in cluster.objects))
        cluster.delete(LIMIT, "gone", heard=False)
        async with leading(cluster, database_url, cluster_id="new") as leader:
            await leader.until(lambda: cluster.ready(LIMIT, "vendor-x") == ("False", "KeyConflict"))
            await leader.until(lambda: cluster.ready(QUEUE, "mail") == ("False", "QueueConflict"))
            message = find(cluster.status(LIMIT, "vendor-x"), "Ready")["message"]
            assert "this very object, under the cluster id old" in message
            assert "formerClusterIds" in message
        async with leading(cluster, database_url, cluster_id="new", former_cluster_ids=("old",)) as leader:
            await leader.until(lambda: all(cluster.ready(k, n) == READY for k, _, n in cluster.objects))
            assert await policy(connection) == (4, uid)
            await eventually(connection, "select count(*) from tidegate.limits where key = 'gone'", 0)
            ids = "select array_agg(distinct owner->>'cluster') from tidegate.limits"
            assert await connection.fetchval(ids) == ["new"]
            assert await connection.fetchval("select owner->>'cluster' from tidegate.queues") == "new"
            # whoever still works under the former id is ended by its next write
            cluster.watchers[:] = [old.cache, leader.cache]
            cluster.apply(LIMIT, "vendor-x", {"maxRunning": 5, "deletionGracePeriod": "0s"})
            await asyncio.wait([old.task], timeout=20)
            assert isinstance(old.task.exception(), OfficeLost)
            await leader.until(lambda: cluster.status(LIMIT, "vendor-x").get("observedGeneration") == 2)
    assert await connection.fetchval("select count(*) from tidegate.sleepers") == 0


async def test_a_namespace_that_may_not_be_read_is_listed_alone_and_its_statuses_take_nobodys_turn(
    cluster: MemoryCluster, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate_operator.listers.RELIST_EVERY", 0.05)
    monkeypatch.setattr("tidegate_operator.listers.FIRST_RETRY", 0.05)
    for number in range(40):
        cluster.apply(LIMIT, f"theirs-{number}", {"maxRunning": 4}, namespace="gone")
    async with leading(cluster, database_url, namespaces=("team", "gone")) as leader:
        await leader.until(lambda: all(cluster.ready(k, n, ns) == READY for k, ns, n in cluster.objects))
        cluster.forbidden = frozenset({"gone"})
        lists = cluster.lists["team"]
        leader.cache.relist()
        await leader.until(lambda: cluster.lists["gone"] > lists + 3)
        assert cluster.lists["team"] <= lists + 2
        # 40 statuses that are refused, five times as many as are written at one time
        for number in range(40):
            cluster.apply(LIMIT, f"theirs-{number}", {"maxRunning": 5}, namespace="gone")
        await leader.until(lambda: cluster.calls.count("patch_status") >= 80)
        began = asyncio.get_running_loop().time()
        cluster.apply(LIMIT, "ours", {"maxRunning": 4})
        await leader.until(lambda: cluster.ready(LIMIT, "ours") == READY)
        assert asyncio.get_running_loop().time() - began < PAUSE
        assert leader.metrics.failures.labels("listing")._value.get() >= 4


async def test_a_listener_that_fails_is_seen_and_heard_of(
    cluster: MemoryCluster,
    database_url: str,
    connection: Any,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr("tidegate_operator.notifications.RETRY", 0.1)
    monkeypatch.setattr("tidegate_operator.notifications.HOUSE_EVERY", 0.1)
    nowhere = "postgresql://nobody@127.0.0.1:9/none"
    url = [nowhere]
    cluster.apply(QUEUE, "mail", {})
    async with leading(cluster, database_url, listen_url=lambda: url[0]) as leader:
        await leader.until(lambda: leader.metrics.failures.labels("listening")._value.get() >= 2)
        assert leader.metrics.listening._value.get() == 0
        url[0] = database_url
        await leader.until(lambda: leader.metrics.listening._value.get() == 1)
        # another URL is taken up while the connection of the first still stands
        listener = "select pid from pg_stat_activity where application_name = 'tidegate listener'"
        before = await connection.fetchval(listener)
        url[0] = f"{database_url}{'&' if '?' in database_url else '?'}work_mem=5MB"
        await eventually(connection, f"select count(*) from ({listener} and pid <> {before}) another", 1)  # noqa: S608 - a number
        said = [each.getMessage() for each in caplog.records if "listening" in each.getMessage()]
        assert said[:2] == ["listening failed and is tried again", "listening works again"]

        await connection.execute("alter procedure tidegate.maintain(uuid) rename to maintain_no_more")
        await leader.until(lambda: leader.metrics.failures.labels("housekeeping")._value.get() >= 2)
        await connection.execute("alter procedure tidegate.maintain_no_more(uuid) rename to maintain")
        await leader.until(lambda: "housekeeping works again" in caplog.text)
        assert caplog.text.count("housekeeping failed") == 1


async def test_a_loop_that_ends_ends_the_leader(
    cluster: MemoryCluster, database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ended = asyncio.Event()

    async def end(_: Doorman) -> None:
        await ended.wait()

    monkeypatch.setattr(Doorman, "keep_house", end)
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: leader.metrics.database_up._value.get() == 1)
        ended.set()
        await asyncio.wait([leader.task], timeout=20)
        assert isinstance(leader.task.exception(), LoopEnded)
        assert leader.metrics.leads._value.get() == 0
    assert "a loop has ended" in caplog.text


async def test_every_loop_shows_that_it_turns(
    cluster: MemoryCluster, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate_operator.notifications.HOUSE_EVERY", 0.1)
    for module in ("reconciler", "scalers", "writers"):
        monkeypatch.setattr(f"tidegate_operator.{module}.REST", 0.1)
    monkeypatch.setattr("tidegate_operator.listers.RELIST_EVERY", 0.1)
    stuck = asyncio.Event()
    async with leading(cluster, database_url) as leader:
        loops = {"the reconciler", "lists", "scaling", "status writes", "Events", "housekeeping"}
        await leader.until(lambda: leader.beats.loops == loops)
        began = asyncio.get_running_loop().time()
        await leader.until(lambda: asyncio.get_running_loop().time() > began + 1.5)
        assert leader.beats.late(1.0) is None

        async def hang(*_: Any, **__: Any) -> None:
            await stuck.wait()

        monkeypatch.setattr(Scaler, "_is_due", lambda *_: False)
        monkeypatch.setattr(Keeper, "keep", hang)
        await leader.until(lambda: leader.beats.late(1.0))
        assert str(leader.beats.late(1.0)).startswith("the reconciler has not turned for ")
    assert leader.beats.late(0.0) is None


async def test_rows_of_a_cluster_that_is_no_more_can_be_given_up_by_hand(
    cluster: MemoryCluster, database_url: str, connection: Any
) -> None:
    """The commands are those of docs/kubernetes.md, "Rows of another id"."""
    cluster.apply(LIMIT, "vendor-x", {"maxRunning": 4})
    cluster.apply(QUEUE, "mail", {"order": "Fair"})
    async with leading(cluster, database_url, cluster_id="dead") as dead:
        await dead.until(lambda: all(cluster.ready(k, n) == READY for k, _, n in cluster.objects))
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: cluster.ready(LIMIT, "vendor-x") == ("False", "KeyConflict"))
        await leader.until(lambda: cluster.ready(QUEUE, "mail") == ("False", "QueueConflict"))
        cleared = await asyncio.to_thread(
            tidegate_command, "limits", "clear", "vendor-x", "--force", database_url=database_url
        )
        assert (cleared.code, cleared.out) == (0, "limit vendor-x: cleared\n")
        await connection.execute("select tidegate.set_queue('mail', '{\"owner\": null}')")
        await leader.until(lambda: all(cluster.ready(k, n) == READY for k, _, n in cluster.objects))


async def test_an_api_server_that_does_not_answer_is_not_asked_about_every_row(
    cluster: MemoryCluster, database_url: str, connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is slow to fail would otherwise hold up the pass for as many timeouts as there are rows."""
    for number in range(30):
        cluster.apply(LIMIT, f"l{number}", {"maxRunning": 4, "deletionGracePeriod": "0s"})
    sweep, asked = Keeper._sweep, list[int]()

    async def unanswered(self: Keeper, store: Any, epoch: int, decisions: Any, kept: Any) -> None:
        due = sum(each.due is not None for each in decisions.values())
        cluster.away = due >= 20
        before = cluster.calls.count("get")
        await sweep(self, store, epoch, decisions, kept)
        if cluster.away:
            asked.append(cluster.calls.count("get") - before)
        cluster.away = False

    async with leading(cluster, database_url, sweep_a_minute=1000) as leader:
        await leader.until(lambda: all(cluster.ready(k, n) == READY for k, _, n in cluster.objects))
        monkeypatch.setattr(Keeper, "_sweep", unanswered)
        for number in range(30):
            cluster.delete(LIMIT, f"l{number}")
        await leader.until(lambda: asked)
        assert asked[0] <= AT_ONCE
        monkeypatch.setattr(Keeper, "_sweep", sweep)
        await eventually(connection, "select count(*) from tidegate.limits", 0)
