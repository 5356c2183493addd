"""The schema: migrations, their dump, and the constants that SQL and the model share."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.schema_dump import SCHEMA_DUMP, dump, migrated
from tidegate.app import MAX_MAX_PAYLOAD_BYTES
from tidegate.errors import DatabaseError, SchemaOutdated
from tidegate.model import defaults
from tidegate.model.durations import MAX_DURATION
from tidegate.store import migrating
from tidegate.store.embedded import temporary_server
from tidegate.store.engine import Engine
from tidegate.store.migrating import functions_digest, migrate, schema_state


async def test_migrating_twice_does_nothing_the_second_time(empty_database_url: str) -> None:
    engine = Engine(empty_database_url)
    state = await schema_state(engine)
    assert (state.version, state.current) == (None, False)
    first = await migrate(engine)
    assert (first.before, first.after) == (0, state.latest)
    assert first.applied[-1] == "functions"
    assert (await migrate(engine)).applied == []
    assert (await schema_state(engine)).current
    await engine.close()


async def test_two_processes_migrating_at_once_apply_everything_once(empty_database_url: str) -> None:
    engines = [Engine(empty_database_url) for _ in range(2)]
    reports = await asyncio.gather(*(migrate(engine) for engine in engines))
    assert sorted(len(report.applied) for report in reports) == [0, len(migrating.migrations()) + 1]
    for engine in engines:
        await engine.close()


async def test_a_newer_schema_is_refused(engine: Engine) -> None:
    await engine.execute("insert into tidegate.schema_migrations(version, name) values (9999, 'from the future')")
    with pytest.raises(SchemaOutdated, match="newer than version"):
        await migrate(engine)


async def test_changed_functions_are_replaced(engine: Engine) -> None:
    await engine.execute("update tidegate.schema_functions set digest = 'old'")
    await engine.execute("create or replace function tidegate.is_name(name text) returns boolean return false")
    assert not (await schema_state(engine)).current
    assert (await migrate(engine)).applied == ["functions"]
    assert await engine.fetchval("select tidegate.is_name('x')")
    assert await engine.fetchval("select digest from tidegate.schema_functions") == functions_digest()


async def test_functions_of_a_newer_release_are_left_alone(engine: Engine) -> None:
    await engine.execute("update tidegate.schema_functions set digest = 'new', release = '99.0.1'")
    assert (await schema_state(engine)).current
    assert (await migrate(engine)).applied == []


async def test_a_failing_migration_changes_nothing(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = {**migrating.migrations(), 9998: ("9998_expand_broken.sql", "create table tidegate.broken(); select 1/0")}
    monkeypatch.setattr(migrating, "migrations", lambda: broken)
    engine = Engine(empty_database_url)
    with pytest.raises(DatabaseError, match=r"9998_expand_broken\.sql failed and nothing was changed"):
        await migrate(engine)
    assert await engine.fetchval("select to_regnamespace('tidegate') is null")
    await engine.close()


def test_migrations_are_numbered_without_gaps_and_named_by_kind() -> None:
    names = [name for name, _ in migrating.migrations().values()]
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
    assert all(re.fullmatch(r"\d{4}_(expand|contract)_[a-z0-9_]+\.sql", name) for name in names)


def test_all_migrations_together_equal_the_dumped_schema() -> None:
    # on one version alone: servers describe the same schema in words of their own
    with temporary_server() as server:
        asyncio.run(migrated(server.url))
        assert dump(server.url) == SCHEMA_DUMP.read_text(encoding="utf-8"), "run `make generate`"


async def test_sql_and_model_agree_on_every_default(connection: Any) -> None:
    column = await connection.fetchval(
        "select column_default from information_schema.columns"
        " where (table_schema, table_name, column_name) = ('tidegate', 'jobs', 'max_attempts')"
    )
    assert int(column) == defaults.MAX_ATTEMPTS
    row = await connection.fetchrow("select * from tidegate.enqueue('q', 'x')")
    job = await connection.fetchrow("select * from tidegate.jobs where id = $1", row["id"])
    assert (job["max_attempts"], job["priority"], job["timeout"]) == (defaults.MAX_ATTEMPTS, defaults.PRIORITY, None)
    text = {path.name: path.read_text() for path in Path(migrating.__file__).with_name("functions").glob("*.sql")}
    seconds = int(defaults.BACKOFF_FIRST.total_seconds()), int(defaults.BACKOFF_MAX.total_seconds() // 60)
    assert f"interval '{seconds[0]} second'" in text["backoff.sql"]
    assert f"interval '{seconds[1]} minutes'" in text["backoff.sql"]
    hours, days = int(defaults.KEEP_SUCCEEDED.total_seconds() // 3600), defaults.KEEP_DEAD.days
    assert f"'{hours} hour'" in text["finish_jobs.sql"]
    assert f"'{days} days'" in text["finish_jobs.sql"]
    assert f"'{days} days'" in text["remember.sql"]
    assert await connection.fetchval("select max_payload_bytes from tidegate.settings") == defaults.MAX_PAYLOAD_BYTES
    before = await connection.fetchval("select tidegate.set_max_payload_bytes($1)", MAX_MAX_PAYLOAD_BYTES)
    assert before == defaults.MAX_PAYLOAD_BYTES
    assert f"<= {defaults.MAX_HEADERS_BYTES}" in text["on_jobs_insert.sql"]
    microseconds = MAX_DURATION // timedelta(microseconds=1)
    assert f"'{microseconds // 10**6}.{microseconds % 10**6:06} seconds'" in text["on_jobs_insert.sql"]
    assert f"**{{{defaults.MAX_PAYLOAD_DEPTH}}}" in text["on_jobs_insert.sql"]
