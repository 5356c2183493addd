"""A pool of connections that opens itself, retries what is safe to retry, and never shows a password."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

import asyncpg
import stamina

from tidegate.errors import DatabaseUnavailable
from tidegate.store.urls import check_database_url

T = TypeVar("T")

CONNECT_TIMEOUT = 10.0
"""Seconds for one connection attempt."""

STATEMENT_TIMEOUT = 60.0
"""Seconds for one statement of this engine; the worker's own calls set shorter ones (reliability.md)."""

RETRIED_STATES = frozenset({"40001", "40P01", "55P03"})
"""SQLSTATEs after which nothing was written and a second try is right: serialisation, deadlock, lock timeout."""


def describe_url(database_url: str) -> str:
    """Return host, port and database of a URL, without user, password or options."""
    try:
        parts = urlsplit(database_url)
        host = parts.hostname or "the default host"
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "the database"
    return f"{host}{port}{parts.path}"


def is_connection_loss(error: BaseException) -> bool:
    """Tell whether the server was out of reach or left: nothing is known of the statement that was under way."""
    if isinstance(error, asyncpg.PostgresError):
        state = getattr(error, "sqlstate", None) or ""
        return state.startswith(("08", "57P", "53300")) or state == "25006"
    return isinstance(error, (OSError, TimeoutError, asyncpg.InterfaceError)) and not isinstance(error, TypeError)


def is_retriable(error: Exception) -> bool:
    """Tell whether the whole statement can be sent again because the server undid it."""
    return isinstance(error, asyncpg.PostgresError) and getattr(error, "sqlstate", None) in RETRIED_STATES


class Engine:
    """Connections to one database.

    Args:
        database_url: ``postgresql://user:password@host:port/database``.
        max_size: connections held at most.
        application_name: shown in ``pg_stat_activity``.

    Raises:
        ConfigurationError: the URL is not one of Postgres.
    """

    def __init__(self, database_url: str, *, max_size: int = 10, application_name: str = "tidegate") -> None:
        self.database_url = check_database_url(database_url)
        self._max_size = max_size
        self._application_name = application_name
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._opening = asyncio.Lock()

    def __repr__(self) -> str:
        return f"Engine({describe_url(self.database_url)})"

    async def open(self) -> None:
        """Open the pool; a second call does nothing.

        Raises:
            DatabaseUnavailable: the server refuses or does not answer.
        """
        async with self._opening:
            if self._pool is not None:
                return
            try:
                self._pool = await asyncpg.create_pool(
                    self.database_url,
                    min_size=0,
                    max_size=self._max_size,
                    timeout=CONNECT_TIMEOUT,
                    command_timeout=STATEMENT_TIMEOUT,
                    server_settings={"application_name": self._application_name},
                )
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
                raise self._unavailable(error) from error

    async def close(self) -> None:
        """Close every connection; the engine opens again when it is used again."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Any]:
        """Lend a connection in autocommit.

        Raises:
            DatabaseUnavailable: no connection could be made.
        """
        await self.open()
        pool = self._pool
        if pool is None:
            raise DatabaseUnavailable(f"the engine of {describe_url(self.database_url)} was closed meanwhile")
        try:
            connection = await pool.acquire()
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise self._unavailable(error) from error
        try:
            yield connection
        finally:
            await pool.release(connection)

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Any]:
        """Lend a connection inside one READ COMMITTED transaction: commit at the end, rollback on an error.

        Raises:
            DatabaseUnavailable: no connection could be made.
        """
        async with self.connect() as connection, connection.transaction(isolation="read_committed"):
            yield connection

    async def fetch(self, sql: str, *args: object) -> list[asyncpg.Record]:
        """Run one statement in autocommit and return its rows."""
        return await self._retried(lambda connection: connection.fetch(sql, *args))

    async def fetchrow(self, sql: str, *args: object) -> asyncpg.Record | None:
        """Run one statement in autocommit and return its first row."""
        return await self._retried(lambda connection: connection.fetchrow(sql, *args))

    async def fetchval(self, sql: str, *args: object) -> Any:
        """Run one statement in autocommit and return the first column of its first row."""
        return await self._retried(lambda connection: connection.fetchval(sql, *args))

    async def execute(self, sql: str, *args: object) -> str:
        """Run one statement in autocommit and return the server's tag."""
        return await self._retried(lambda connection: connection.execute(sql, *args))

    async def _retried(self, call: Callable[[Any], Awaitable[T]]) -> T:
        async for attempt in stamina.retry_context(on=is_retriable, attempts=5, wait_initial=0.02, wait_max=0.5):
            with attempt:
                async with self.connect() as connection:
                    return await call(connection)
        raise AssertionError("a retry loop ends with a result or an error")

    def _unavailable(self, error: BaseException) -> DatabaseUnavailable:
        reason = str(error) or type(error).__name__
        return DatabaseUnavailable(
            f"cannot reach {describe_url(self.database_url)}: {reason}. "
            "Check that the server runs and that --database-url or TIDEGATE_DATABASE_URL names it"
        )
