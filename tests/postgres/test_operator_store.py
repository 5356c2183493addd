"""Rows that objects own: batches, the fence of the epoch, the guarded sweep; with locks held by others meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from tidegate.model.limits import LimitPolicy
from tidegate.model.ownership import Outcome, Ownership
from tidegate.model.queues import QueueOrder, QueueSpec
from tidegate.ports import OfficeLost
from tidegate.store.operators import UNREADABLE, OperatorStore, Wanted

Connect = Callable[..., Awaitable[Any]]


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[OperatorStore]:
    store = OperatorStore(database_url, "c1")
    yield store
    await store.close()


def owner(uid: str = "a", **changes: Any) -> Ownership:
    plain = Ownership(cluster="c1", namespace="team", name="vendor-x", uid=uid, generation=1)
    return plain.model_copy(update=changes)


def wanted(key: str, running: int, *, by: Ownership, expected: Ownership | None = None) -> Wanted:
    policy = LimitPolicy(key=key, max_running=running)
    return Wanted(key, expected, {**policy.to_change().to_changes(), "owner": by.to_json()})


async def test_a_row_is_written_with_its_owner_and_read_back(store: OperatorStore) -> None:
    epoch = await store.take_office("pod-1")
    assert await store.own("limits", epoch, [wanted("k", 4, by=owner())]) == {"k": Outcome.WRITTEN}
    held = (await store.held("limits", ["k", "unknown"]))["k"]
    assert held.owner == owner()
    assert held.declared
    assert held.fields == LimitPolicy(key="k", max_running=4).model_dump()


async def test_a_queue_is_written_with_its_owner_and_read_back(store: OperatorStore) -> None:
    epoch = await store.take_office("pod-1")
    spec = QueueSpec(name="mail", order=QueueOrder.FAIR, default_timeout=timedelta(minutes=1), keep_dead=timedelta(0))
    changes = {**spec.to_changes(), "owner": owner().to_json()}
    assert await store.own("queues", epoch, [Wanted("mail", None, changes)]) == {"mail": Outcome.WRITTEN}
    held = (await store.held("queues", ["mail"]))["mail"]
    assert (held.fields, held.declared, held.owner) == (spec.model_dump(), True, owner())


async def test_a_queue_that_nobody_declared_is_told_from_one_that_somebody_set(
    store: OperatorStore, connection: Any
) -> None:
    await connection.execute("select tidegate.ensure_queue('plain')")
    await connection.execute("select tidegate.set_queue('set', '{\"suspended\": true}')")
    held = await store.held("queues", ["plain", "set"])
    assert {name: each.declared for name, each in held.items()} == {"plain": False, "set": True}


async def test_owned_rows_are_found_without_their_names(store: OperatorStore, connection: Any) -> None:
    epoch = await store.take_office("pod-1")
    await store.own("limits", epoch, [wanted("mine", 1, by=owner())])
    await connection.execute(
        'select tidegate.change_limit(\'theirs\', \'{"max_running": 1, "owner": {"cluster": "c2", "uid": "z",'
        ' "namespace": "n", "name": "m"}}\'), tidegate.change_limit(\'by hand\', \'{"max_running": 1}\')'
    )
    assert set(await store.held("limits", [], owners=["c1"])) == {"mine"}
    assert set(await store.held("limits", ["theirs", "by hand"], owners=["c1"])) == {"mine", "theirs", "by hand"}


async def test_an_owner_that_no_operator_wrote_is_somebody_elses(store: OperatorStore, connection: Any) -> None:
    await connection.execute('select tidegate.change_limit(\'k\', \'{"max_running": 1, "owner": {"team": "x"}}\')')
    held = (await store.held("limits", ["k"]))["k"]
    assert held.owner is not None
    assert held.owner.cluster == UNREADABLE


async def test_a_row_that_got_another_owner_meanwhile_is_left_alone(store: OperatorStore) -> None:
    epoch = await store.take_office("pod-1")
    await store.own("limits", epoch, [wanted("k", 4, by=owner("a"))])
    outcomes = await store.own("limits", epoch, [wanted("k", 9, by=owner("b")), wanted("free", 1, by=owner("b"))])
    assert outcomes == {"k": Outcome.TAKEN, "free": Outcome.WRITTEN}
    assert (await store.held("limits", ["k"]))["k"].owner == owner("a")


async def test_a_replacement_is_one_update(store: OperatorStore, connection: Any) -> None:
    epoch = await store.take_office("pod-1")
    await store.own("limits", epoch, [wanted("k", 4, by=owner("a"))])
    await store.own("limits", epoch, [wanted("k", 2, by=owner("b"), expected=owner("a"))])
    row = await connection.fetchrow("select max_running, owner->>'uid' as uid from tidegate.limits where key = 'k'")
    assert tuple(row) == (2, "b")


async def test_many_rows_go_in_several_statements(store: OperatorStore, connection: Any) -> None:
    epoch = await store.take_office("pod-1")
    many = [wanted(f"k{number}", 1, by=owner()) for number in range(1_100)]
    outcomes = await store.own("limits", epoch, many)
    assert set(outcomes.values()) == {Outcome.WRITTEN}
    assert await connection.fetchval("select count(*) from tidegate.limits") == 1_100


async def test_a_held_key_delays_no_other_and_is_busy_in_the_end(store: OperatorStore, connect: Connect) -> None:
    epoch = await store.take_office("pod-1")
    await store.own("limits", epoch, [wanted("b", 4, by=owner())])
    somebody = await connect()
    async with somebody.transaction():
        await somebody.execute("select from tidegate.keys where key = 'b' for no key update")
        ask = [wanted(key, 9, by=owner(), expected=owner() if key == "b" else None) for key in ("a", "b", "c")]
        assert await store.own("limits", epoch, ask) == {
            "a": Outcome.WRITTEN,
            "b": Outcome.BUSY,
            "c": Outcome.WRITTEN,
        }
    assert await store.own("limits", epoch, ask[1:2]) == {"b": Outcome.WRITTEN}


async def test_a_key_that_an_open_transaction_is_making_is_busy(store: OperatorStore, connect: Connect) -> None:
    epoch = await store.take_office("pod-1")
    somebody = await connect()
    async with somebody.transaction():
        await somebody.execute("select tidegate.set_limit('k', max_running => 1)")
        assert await store.own("limits", epoch, [wanted("k", 9, by=owner())]) == {"k": Outcome.BUSY}
    assert await store.own("limits", epoch, [wanted("k", 9, by=owner())]) == {"k": Outcome.WRITTEN}


async def test_a_held_queue_is_busy(store: OperatorStore, connect: Connect) -> None:
    epoch = await store.take_office("pod-1")
    ask = [Wanted("mail", None, {"suspended": True, "owner": owner().to_json()})]
    somebody = await connect()
    await somebody.execute("select tidegate.ensure_queue('mail')")
    async with somebody.transaction():
        await somebody.execute("select from tidegate.queues where name = 'mail' for no key update")
        assert await store.own("queues", epoch, ask) == {"mail": Outcome.BUSY}
    assert await store.own("queues", epoch, ask) == {"mail": Outcome.WRITTEN}


async def test_an_earlier_leader_writes_nothing_more(store: OperatorStore, database_url: str) -> None:
    first = await store.take_office("pod-1")
    later = OperatorStore(database_url, "c1")
    second = await later.take_office("pod-2")
    assert second == first + 1
    for table in ("limits", "queues"):
        with pytest.raises(OfficeLost, match="after epoch 1"):
            await store.own(table, first, [wanted("k", 4, by=owner())])
    with pytest.raises(OfficeLost):
        await store.drain_crew(first, [])
    with pytest.raises(OfficeLost):
        await store.sweep("limits", first, wanted("k", 4, by=owner()), 10)
    assert await later.own("limits", second, [wanted("k", 4, by=owner())]) == {"k": Outcome.WRITTEN}
    await later.close()


async def test_another_cluster_has_an_epoch_of_its_own(store: OperatorStore, database_url: str) -> None:
    epoch = await store.take_office("pod-1")
    other = OperatorStore(database_url, "c2")
    assert await other.take_office("pod-9") == epoch
    assert await store.own("limits", epoch, [wanted("k", 4, by=owner())]) == {"k": Outcome.WRITTEN}
    await other.close()


async def test_a_new_leader_waits_for_the_write_under_way(
    store: OperatorStore, connect: Connect, database_url: str
) -> None:
    epoch = await store.take_office("pod-1")
    writing = await connect()
    watching = await connect()
    transaction = writing.transaction()
    await transaction.start()
    await writing.execute("select tidegate.require_office('c1', $1)", epoch)
    taking = asyncio.create_task(store.take_office("pod-2"))
    blocked = (
        "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        " and application_name = 'tidegate operator'"
    )
    while not await watching.fetchval(blocked):
        assert not taking.done()
    await transaction.commit()
    assert await taking == epoch + 1


async def test_no_more_rows_a_minute_are_given_up_than_allowed(store: OperatorStore, connection: Any) -> None:
    epoch = await store.take_office("pod-1")
    keys = [f"k{number}" for number in range(4)]
    await store.own("limits", epoch, [wanted(key, 1, by=owner()) for key in keys])
    end = {"max_running": None, "owner": None}
    outcomes = [await store.sweep("limits", epoch, Wanted(key, owner(), end), 3) for key in keys]
    assert outcomes == [Outcome.WRITTEN] * 3 + [Outcome.HELD_BACK]
    # a new leader gets no new budget
    epoch = await store.take_office("pod-2")
    assert await store.sweep("limits", epoch, Wanted("k3", owner(), end), 3) is Outcome.HELD_BACK
    await connection.execute("update tidegate.epochs set swept = array[clock_timestamp() - interval '1 minute']")
    assert await store.sweep("limits", epoch, Wanted("k3", owner(), end), 3) is Outcome.WRITTEN
    assert await connection.fetchval("select count(*) from tidegate.limits") == 0


async def test_a_sweep_of_a_row_that_was_taken_over_costs_nothing(store: OperatorStore, connection: Any) -> None:
    epoch = await store.take_office("pod-1")
    await store.own("limits", epoch, [wanted("k", 1, by=owner("b"))])
    end = Wanted("k", owner("a"), {"max_running": None, "owner": None})
    assert await store.sweep("limits", epoch, end, 1) is Outcome.TAKEN
    assert await connection.fetchval("select cardinality(swept) from tidegate.epochs") == 0


async def test_numbers_of_what_is_free_do_not_change_from_look_to_look(store: OperatorStore) -> None:
    epoch = await store.take_office("pod-1")
    policy = LimitPolicy(key="k", max_running=4, max_starts=2, window=timedelta(minutes=1))
    await store.own(
        "limits", epoch, [Wanted("k", None, {**policy.to_change().to_changes(), "owner": owner().to_json()})]
    )
    assert await store.limit_numbers(["k"]) == await store.limit_numbers(["k"])


async def test_rows_held_by_a_long_transaction_are_not_waited_for_one_by_one(
    store: OperatorStore, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.store.operators.PATIENCE", 0.0)
    epoch = await store.take_office("pod-1")
    many = [wanted(f"k{number}", 1, by=owner()) for number in range(50)]
    await store.own("limits", epoch, many)
    somebody = await connect()
    async with somebody.transaction():
        await somebody.execute("select from tidegate.keys for no key update")
        again = [wanted(each.name, 2, by=owner(), expected=owner()) for each in many]
        assert set((await store.own("limits", epoch, again)).values()) == {Outcome.BUSY}


async def test_a_row_that_somebody_holds_is_not_given_up_and_stops_nothing(
    store: OperatorStore, connect: Connect
) -> None:
    epoch = await store.take_office("pod-1")
    await store.own("limits", epoch, [wanted("k", 1, by=owner())])
    somebody = await connect()
    end = Wanted("k", owner(), {"max_running": None, "owner": None})
    async with somebody.transaction():
        await somebody.execute("select from tidegate.keys where key = 'k' for no key update")
        assert await store.sweep("limits", epoch, end, 10) is Outcome.BUSY
    assert await store.sweep("limits", epoch, end, 10) is Outcome.WRITTEN


async def test_a_worker_in_the_middle_of_a_claim_is_drained_later(store: OperatorStore, connect: Connect) -> None:
    epoch = await store.take_office("pod-1")
    worker = uuid4()
    somebody = await connect()
    await somebody.execute(
        "select tidegate.register_worker($1, 'w', '{a}', '{x}', 1, null, interval '30 s', '0')", worker
    )
    async with somebody.transaction():
        await somebody.execute("select from tidegate.workers where id = $1 for key share", worker)
        assert await store.drain_crew(epoch, [worker]) is None
    assert await store.drain_crew(epoch, [worker]) == 1


async def test_a_queue_that_another_cluster_is_making_is_not_taken_from_it(
    store: OperatorStore, connect: Connect, database_url: str
) -> None:
    epoch = await store.take_office("pod-1")
    somebody = await connect()
    theirs = await somebody.fetchval("select tidegate.take_office('c2', 'pod-9')")
    rows = json.dumps(
        [{"name": "mail", "expected": None, "changes": {"suspended": True, "owner": owner(cluster="c2").to_json()}}]
    )
    ask = [Wanted("mail", None, {"suspended": False, "owner": owner().to_json()})]
    async with somebody.transaction():
        await somebody.fetch("select * from tidegate.own_queues('c2', $1, $2)", theirs, rows)
        assert await store.own("queues", epoch, ask) == {"mail": Outcome.BUSY}
    assert await store.own("queues", epoch, ask) == {"mail": Outcome.TAKEN}
