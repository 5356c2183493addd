"""Every kind of session that Tidegate takes, opened on a test's database, with its own way to commit and roll back."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import psycopg
from psycopg.rows import class_row, dict_row, namedtuple_row, scalar_row
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool


@dataclass
class Opened:
    """A session inside a transaction of the caller's, and how the caller ends it. ``is_async`` as its user knows it."""

    session: Any
    is_async: bool
    end: Callable[[str], Any]

    async def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function of Tidegate with the session first, and check that its result comes the session's way."""
        return await self.result(function(self.session, *args, **kwargs))

    async def result(self, value: Any) -> Any:
        assert inspect.isawaitable(value) is self.is_async
        return await value if self.is_async else value

    async def commit(self) -> None:
        await settled(self.end("commit"))

    async def rollback(self) -> None:
        await settled(self.end("rollback"))


async def settled(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


Opener = Callable[[str], Any]
"""Takes a URL, gives an async context manager of `Opened`."""


def ends(session: Any) -> Callable[[str], Any]:
    return lambda verb: getattr(session, verb)()


@asynccontextmanager
async def asyncpg_connection(url: str) -> AsyncIterator[Opened]:
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    yield Opened(connection, True, ends(transaction))
    await connection.close()


@asynccontextmanager
async def asyncpg_pool(url: str) -> AsyncIterator[Opened]:
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        yield Opened(connection, True, ends(transaction))


class Shouting(asyncpg.Record):
    """A record class of the caller's that hides its values."""

    def __getitem__(self, key: Any) -> Any:
        raise AssertionError("our rows are our own")


@asynccontextmanager
async def asyncpg_with_codecs(url: str) -> AsyncIterator[Opened]:
    connection = await asyncpg.connect(url, record_class=Shouting, statement_cache_size=0)
    await connection.set_type_codec("jsonb", encoder=repr, decoder=len, schema="pg_catalog")
    await connection.set_type_codec("timestamptz", encoder=str, decoder=len, schema="pg_catalog")
    transaction = connection.transaction(isolation="serializable")
    await transaction.start()
    yield Opened(connection, True, ends(transaction))
    await connection.close()


def dialect_url(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://", 1)


@asynccontextmanager
async def async_engine(url: str, driver: str) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(dialect_url(url, driver), poolclass=NullPool)
    yield engine
    await engine.dispose()


def sqlalchemy_async_connection(driver: str) -> Opener:
    @asynccontextmanager
    async def opener(url: str) -> AsyncIterator[Opened]:
        async with async_engine(url, driver) as engine, engine.connect() as connection:
            yield Opened(connection, True, ends(connection))

    return opener


def sqlalchemy_async_session(driver: str) -> Opener:
    @asynccontextmanager
    async def opener(url: str) -> AsyncIterator[Opened]:
        async with async_engine(url, driver) as engine, AsyncSession(engine) as session:
            yield Opened(session, True, ends(session))

    return opener


@asynccontextmanager
async def sqlalchemy_async_scoped_session(url: str) -> AsyncIterator[Opened]:
    async with async_engine(url, "asyncpg") as engine:
        session = async_scoped_session(async_sessionmaker(engine), scopefunc=lambda: 1)
        yield Opened(session, True, ends(session))
        await session.remove()


@asynccontextmanager
async def sqlalchemy_connection(url: str) -> AsyncIterator[Opened]:
    engine = create_engine(dialect_url(url, "psycopg"), poolclass=NullPool)
    with engine.connect().execution_options(stream_results=True) as connection:
        yield Opened(connection, False, ends(connection))
    engine.dispose()


@asynccontextmanager
async def sqlalchemy_session(url: str) -> AsyncIterator[Opened]:
    engine = create_engine(dialect_url(url, "psycopg"), poolclass=NullPool)
    with Session(engine) as session:
        yield Opened(session, False, ends(session))
    engine.dispose()


@asynccontextmanager
async def sqlalchemy_scoped_session(url: str) -> AsyncIterator[Opened]:
    engine = create_engine(dialect_url(url, "psycopg"), poolclass=NullPool)
    session = scoped_session(sessionmaker(engine))
    yield Opened(session, False, ends(session))
    session.remove()
    engine.dispose()


@dataclass
class Whole:
    """A row class of the caller's that fits no row of ours."""

    everything: str


def psycopg_connection(**options: Any) -> Opener:
    @asynccontextmanager
    async def opener(url: str) -> AsyncIterator[Opened]:
        with psycopg.connect(url, **options) as connection:
            yield Opened(connection, False, ends(connection))

    return opener


def psycopg_async_connection(**options: Any) -> Opener:
    @asynccontextmanager
    async def opener(url: str) -> AsyncIterator[Opened]:
        async with await psycopg.AsyncConnection.connect(url, **options) as connection:
            yield Opened(connection, True, ends(connection))

    return opener


KINDS: dict[str, Opener] = {
    "asyncpg": asyncpg_connection,
    "asyncpg-pool": asyncpg_pool,
    "asyncpg-codecs-serializable": asyncpg_with_codecs,
    "sqlalchemy-AsyncConnection-asyncpg": sqlalchemy_async_connection("asyncpg"),
    "sqlalchemy-AsyncConnection-psycopg": sqlalchemy_async_connection("psycopg"),
    "sqlalchemy-AsyncSession-asyncpg": sqlalchemy_async_session("asyncpg"),
    "sqlalchemy-AsyncSession-psycopg": sqlalchemy_async_session("psycopg"),
    "sqlalchemy-async_scoped_session": sqlalchemy_async_scoped_session,
    "sqlalchemy-Connection-streaming": sqlalchemy_connection,
    "sqlalchemy-Session": sqlalchemy_session,
    "sqlalchemy-scoped_session": sqlalchemy_scoped_session,
    "psycopg": psycopg_connection(),
    "psycopg-dict_row": psycopg_connection(row_factory=dict_row),
    "psycopg-class_row": psycopg_connection(row_factory=class_row(Whole)),
    "psycopg-ClientCursor": psycopg_connection(cursor_factory=psycopg.ClientCursor),
    "psycopg-async": psycopg_async_connection(),
    "psycopg-async-namedtuple_row": psycopg_async_connection(row_factory=namedtuple_row),
    "psycopg-async-scalar_row": psycopg_async_connection(row_factory=scalar_row, cursor_factory=psycopg.AsyncRawCursor),
}
"""By name, for parametrised tests."""
