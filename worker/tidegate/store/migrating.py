"""Bring a database to this release: numbered migrations once each, functions whenever their text changed.

Migrations go forward only and are named ``NNNN_{expand,contract}_what.sql``. Functions live one to a file in
``store/functions`` and are replaced as a whole when their digest differs, so a function is edited where it stands.
One advisory lock serialises everybody who migrates; each lock in the database is waited for 5 s at most, so that a
migration never stalls the running workers behind it.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import asyncpg

from tidegate.errors import DatabaseError, SchemaOutdated
from tidegate.store.engine import Engine
from tidegate.store.statements import statement

RELEASE = version("tidegate")
"""This release: functions of a newer one are left alone, so that an older worker never puts them back."""

ADVISORY_KEY = 7438_0001
"""The advisory lock that all migrating processes share."""


@dataclass(frozen=True)
class MigrationReport:
    """What a call of `migrate` did: versions before and after, and what it applied, in order."""

    before: int
    after: int
    applied: list[str]


@dataclass(frozen=True)
class SchemaState:
    """Where a database stands: its version (None without a schema), this release's, and whether they agree."""

    version: int | None
    latest: int
    current: bool


@cache
def migrations() -> dict[int, tuple[str, str]]:
    """Return the migrations of this release: number to (file name, text), in order."""
    found = sorted(
        (entry for entry in (files("tidegate.store") / "migrations").iterdir() if entry.name.endswith(".sql")),
        key=lambda entry: entry.name,
    )
    return {int(entry.name[:4]): (entry.name, entry.read_text(encoding="utf-8")) for entry in found}


@cache
def functions() -> str:
    """Return the text of all functions, in the order of their file names."""
    found = sorted(
        (entry for entry in (files("tidegate.store") / "functions").iterdir() if entry.name.endswith(".sql")),
        key=lambda entry: entry.name,
    )
    return "\n".join(entry.read_text(encoding="utf-8") for entry in found)


def functions_digest() -> str:
    """Return the digest of this release's functions, as the database keeps it."""
    return hashlib.sha256(functions().encode()).hexdigest()


async def migrate(engine: Engine) -> MigrationReport:
    """Apply what is missing, in one transaction; nothing happens when nothing is missing.

    Raises:
        SchemaOutdated: the database is ahead of this release.
        DatabaseError: a migration failed; the database is as it was before.
    """
    async with engine.begin() as connection:
        await connection.execute("select pg_advisory_xact_lock($1)", ADVISORY_KEY)
        await connection.execute("set local lock_timeout = '5s'")
        await connection.execute("set local client_min_messages = warning")
        # functions call each other, whichever file comes first
        await connection.execute("set local check_function_bodies = off")
        before, digest, release = await _installed(connection)
        latest = max(migrations())
        if before > latest:
            raise SchemaOutdated(before, latest)
        applied: list[str] = []
        for number, (name, text) in migrations().items():
            if number > before:
                await _run(connection, name, text)
                await connection.execute(statement("record_migration"), number, name)
                applied.append(name)
        if digest != functions_digest() and _order(release) <= _order(RELEASE):
            await _run(connection, "functions", functions())
            await connection.execute(statement("revoke_public"))
            await connection.execute(statement("record_functions"), functions_digest(), RELEASE)
            applied.append("functions")
    return MigrationReport(before, latest, applied)


async def schema_state(engine: Engine) -> SchemaState:
    """Return where the database stands, without changing it."""
    async with engine.connect() as connection:
        found, digest, release = await _installed(connection)
    latest = max(migrations())
    functions_current = digest == functions_digest() or _order(release) > _order(RELEASE)
    return SchemaState(found or None, latest, found == latest and functions_current)


async def _installed(connection: Any) -> tuple[int, str | None, str | None]:
    if not await connection.fetchval("select to_regclass('tidegate.schema_migrations') is not null"):
        return 0, None, None
    row = await connection.fetchrow(statement("installed_schema"))
    return row["version"], row["digest"], row["release"]


def _order(release: str | None) -> tuple[int, ...]:
    """Order releases by their numbers; no functions at all come before every release."""
    return tuple(int(part) for part in re.findall(r"\d+", release or "")[:3])


async def _run(connection: Any, name: str, text: str) -> None:
    try:
        await connection.execute(text)
    except asyncpg.PostgresError as error:
        raise DatabaseError(f"{name} failed and nothing was changed: {error}") from error
