"""``set_limit``, ``clear_limit`` and ``list_limits``: every sentence that is promised about them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import asyncpg
import pytest

from tests.examples_table import LIMIT_CHANGES, NAMES
from tests.postgres.claimants import Claimant
from tidegate import App, InvalidInput, InvalidLimit, InvalidName, LimitOwned, clear_limit, list_limits, set_limit
from tidegate.model.limits import LimitPolicy
from tidegate.store.engine import Engine
from tidegate.store.refusals import refusal_of

KEY = "vendor-x"

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


def arguments(parts: Mapping[str, Any]) -> dict[str, Any]:
    """The table's milliseconds as the timedelta that callers give."""
    window = parts.get("window")
    return {**parts, "window": timedelta(milliseconds=window)} if window is not None else dict(parts)


def in_sql(parts: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """The call that psql would make: only the arguments that are given."""
    names = {"window": "rate_window"}
    given = arguments(parts)
    listed = "".join(f", {names.get(name, name)} => ${number}" for number, name in enumerate(given, 2))
    return f"select * from tidegate.set_limit($1{listed})", list(given.values())  # noqa: S608 - names of the table


async def stored(connection: Connection) -> list[dict[str, Any]]:
    rows = await connection.fetch("select key, max_running, max_starts, rate_window, weight from tidegate.limits")
    return [dict(row) for row in rows]


async def test_python_judges_the_table_of_changes_and_the_database_keeps_it(connection: Connection) -> None:
    for case in LIMIT_CHANGES:
        transaction = connection.transaction()
        await transaction.start()
        if case.before:
            await set_limit(connection, KEY, **arguments(case.before))
        if case.refused is None:
            expected = LimitPolicy(key=KEY, **arguments(case.after))
            assert await set_limit(connection, KEY, **arguments(case.change)) == expected, case.label
            listed = [LimitPolicy(**dict(row)) for row in await list_limits(connection)]
            assert listed == ([expected] if case.after else []), case.label
        else:
            with pytest.raises(InvalidLimit) as caught:
                await set_limit(connection, KEY, **arguments(case.change))
            assert caught.value.field == case.refused, case.label
        await transaction.rollback()
    assert await stored(connection) == []


async def test_sql_judges_the_same_table_alike(connection: Connection) -> None:
    cases = [case for case in LIMIT_CHANGES if case.numeric and all(abs(n or 0) < 2**31 for n in case.change.values())]
    assert len(cases) > 30
    for case in cases:
        transaction = connection.transaction()
        await transaction.start()
        if case.before:
            await set_limit(connection, KEY, **arguments(case.before))
        sql, values = in_sql(case.change)
        if case.refused is None:
            row = await connection.fetchrow(sql, KEY, *values)
            assert row is not None
            after = arguments(case.after)
            assert dict(row) == {
                "key": KEY,
                "max_running": after.get("max_running"),
                "max_starts": after.get("max_starts"),
                "rate_window": after.get("window"),
                "weight": after.get("weight"),
                "owner": None,
                "updated_at": row["updated_at"],
            }, case.label
        else:
            with pytest.raises(asyncpg.InvalidParameterValueError) as caught:
                await connection.fetchrow(sql, KEY, *values)
            assert case.refused in refusal_of(caught.value)[1], case.label
        await transaction.rollback()


async def test_python_and_sql_judge_keys_alike(connection: Connection) -> None:
    for case in NAMES:
        transaction = connection.transaction()
        await transaction.start()
        if case.good:
            assert (await set_limit(connection, case.value, max_running=1)).key == case.value, case.label
            assert await clear_limit(connection, case.value) is True
        else:
            for call in (set_limit(connection, "x", max_running=1), clear_limit(connection, "x")):
                await call
            with pytest.raises(InvalidName, match=r"^key "):
                set_limit(connection, case.value, max_running=1)
            with pytest.raises(InvalidName, match=r"^key "):
                clear_limit(connection, case.value)
        if case.fits_a_connection and not case.good:
            with pytest.raises(asyncpg.InvalidParameterValueError, match="key"):
                await connection.execute("select tidegate.set_limit($1, 1)", case.value)
        await transaction.rollback()


async def test_a_rollback_changes_nothing(connection: Connection) -> None:
    await set_limit(connection, KEY, max_running=4, max_starts=9, window=timedelta(seconds=1), weight=2)
    before = await stored(connection)
    transaction = connection.transaction()
    await transaction.start()
    await set_limit(connection, KEY, max_running=None, weight=7)
    await clear_limit(connection, "another")
    await set_limit(connection, "another", max_running=1)
    await clear_limit(connection, KEY)
    await transaction.rollback()
    assert await stored(connection) == before


async def test_an_engine_makes_a_transaction_of_its_own(engine: Engine) -> None:
    assert await set_limit(engine, KEY, max_running=4) == LimitPolicy(key=KEY, max_running=4)
    assert [status.key for status in await list_limits(engine)] == [KEY]
    assert await clear_limit(engine, KEY) is True
    assert await clear_limit(engine, KEY) is False
    assert await list_limits(engine) == []
    with pytest.raises(InvalidLimit, match="max_starts needs a window"):
        await set_limit(engine, KEY, max_starts=1)


async def test_an_owner_stays_through_a_change_and_is_listed(connection: Connection) -> None:
    owner = '{"cluster": "c", "namespace": "n", "name": "o", "uid": "u"}'
    await connection.execute(
        "select tidegate.change_limit($1, jsonb_build_object('max_running', 1, 'owner', $2::text::jsonb))", KEY, owner
    )
    await set_limit(connection, KEY, max_running=2)
    [status] = await list_limits(connection)
    assert status.owner is not None
    assert (status.max_running, status.owner.namespace, status.owner.name) == (2, "n", "o")
    assert "n/o" in str(LimitOwned(KEY, status.owner.model_dump()))
    await clear_limit(connection, KEY)
    await set_limit(connection, KEY, max_running=2)
    [status] = await list_limits(connection)
    assert status.owner is None


async def enqueue(connection: Connection, jobs: int, queue: str = "a", key: str = KEY) -> None:
    app = App()

    @app.actor(channel=queue, name="x")
    def x() -> None: ...

    await x.using(session=connection, limit_key=key).enqueue_many({} for _ in range(jobs))


async def started(claimant: Claimant, queue: str = "a", slots: int = 8) -> int:
    return len(await claimant.claim(queue, slots))


async def test_the_next_claim_after_the_commit_obeys_and_no_job_is_rewritten(
    connection: Connection, claimants: list[Claimant]
) -> None:
    one, *_ = claimants
    await enqueue(connection, 20)
    versions = "select id, xmin::text, ctid::text from tidegate.jobs where state = 'ready' order by id"
    before = await connection.fetch(versions)
    transaction = connection.transaction()
    await transaction.start()
    await set_limit(connection, KEY, max_running=2)
    await transaction.commit()
    assert await connection.fetch(versions) == before
    rows = await one.claim("a", 8)
    assert len(rows) == 2
    assert await started(one) == 0
    await set_limit(connection, KEY, max_running=5)
    assert await started(one) == 3
    await set_limit(connection, KEY, max_running=1)
    await one.ack(rows)
    assert await started(one) == 0, "a lowered cap starts nothing until what runs fits"
    await set_limit(connection, KEY, max_running=None)
    assert await started(one) == 8


async def test_zero_holds_everything(connection: Connection, claimants: list[Claimant]) -> None:
    one, *_ = claimants
    await enqueue(connection, 3)
    await set_limit(connection, KEY, max_running=0)
    assert await started(one) == 0
    await set_limit(connection, KEY, max_running=None, max_starts=0, window=timedelta(hours=1))
    assert await started(one) == 0
    [status] = await list_limits(connection)
    assert (status.waiting, status.blocked, status.next_start_at) == (3, 3, None)
    await clear_limit(connection, KEY)
    assert await started(one) == 3


async def test_a_key_without_a_policy_and_the_empty_key_have_no_limit(
    connection: Connection, claimants: list[Claimant]
) -> None:
    one, *_ = claimants
    await set_limit(connection, KEY, max_running=0)
    await enqueue(connection, 8, key="")
    await enqueue(connection, 8, key="of nobody")
    assert await started(one, slots=100) == 16


async def test_limits_hold_over_all_queues_and_workers(connection: Connection, claimants: list[Claimant]) -> None:
    await set_limit(connection, KEY, max_running=3)
    for queue in ("a", "b", "c"):
        await enqueue(connection, 8, queue)
    numbers = [await started(claimant, queue, 2) for claimant, queue in zip(claimants, "abc", strict=True)]
    assert numbers == [2, 1, 0]


async def test_clearing_forgets_the_starts(connection: Connection, claimants: list[Claimant]) -> None:
    one, *_ = claimants
    await enqueue(connection, 20)
    await set_limit(connection, KEY, max_starts=2, window=timedelta(hours=1))
    assert [await started(one), await started(one)] == [2, 0]
    assert await connection.fetchval("select sum(n) from tidegate.limit_starts") == 2
    assert await clear_limit(connection, KEY) is True
    assert await connection.fetchval("select count(*) from tidegate.limit_starts") == 0
    await set_limit(connection, KEY, max_starts=3, window=timedelta(hours=1))
    assert [await started(one), await started(one)] == [3, 0]


async def test_the_list_shows_live_use(connection: Connection, claimants: list[Claimant]) -> None:
    one, *_ = claimants
    hour = timedelta(hours=1)
    await set_limit(connection, "b key", max_running=2, weight=3)
    await set_limit(connection, KEY, max_running=4, max_starts=3, window=hour)
    await enqueue(connection, 10)
    fresh = {status.key: status for status in await list_limits(connection)}
    assert list(fresh) == ["b key", KEY]
    assert (fresh[KEY].running, fresh[KEY].waiting, fresh[KEY].starts) == (0, 10, 0)
    assert (fresh["b key"].weight, fresh["b key"].running, fresh["b key"].waiting) == (3, 0, 0)
    assert fresh[KEY].blocked == 7
    rows = await one.claim("a", 8)
    assert len(rows) == 3
    used = {status.key: status for status in await list_limits(connection)}[KEY]
    assert (used.running, used.waiting, used.starts, used.blocked) == (3, 7, 3, 7)
    first = await connection.fetchval("select min(started_at) from tidegate.limit_starts")
    assert used.next_start_at == first + hour
    await one.ack(rows)
    done = {status.key: status for status in await list_limits(connection)}[KEY]
    assert (done.running, done.waiting, done.starts) == (0, 7, 3), "a start counts until its window is over"


async def test_a_window_keeps_its_microseconds(connection: Connection) -> None:
    window = timedelta(hours=23, microseconds=123_457)
    policy = await set_limit(connection, KEY, max_starts=1, window=window)
    assert policy.window == window
    assert (await list_limits(connection))[0].window == window


async def test_nothing_given_is_an_error(connection: Connection) -> None:
    with pytest.raises(InvalidInput, match="give at least one"):
        set_limit(connection, KEY)


async def test_changes_are_dated(connection: Connection) -> None:
    before = datetime.now(UTC) - timedelta(minutes=1)
    await set_limit(connection, KEY, max_running=1)
    assert await connection.fetchval("select updated_at from tidegate.limits") > before
