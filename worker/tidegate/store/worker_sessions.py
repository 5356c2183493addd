"""One long-lived connection of a worker, opened when needed and renewed when lost."""

import asyncio
from contextlib import suppress
from typing import Any

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from tidegate.errors import DatabaseError, DatabaseUnavailable
from tidegate.ports import WorkerGone
from tidegate.store.engine import describe_url, is_connection_loss

WORKER_GONE = "P0002"
READ_COMMITTED = "read committed"
LOCK_TIMEOUT_MS = 1_000
IDLE_IN_TRANSACTION_MS = 10_000
TCP_USER_TIMEOUT_MS = 15_000

DRIVER_ERRORS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)
"""All that the driver raises for a server that refuses, leaves or does not answer. Internal errors belong to it: the
driver has them for a server that is read-only, and for a connection that ends while it is being opened."""


class WorkerSession:
    """Calls of one kind on one connection, one at a time; used on one event loop.

    The functions of the claim refuse any isolation but READ COMMITTED. The connection asks for it when it is opened;
    where a pooler drops that wish and the server's default differs, each call gets a transaction of its own.

    Args:
        database_url: where to connect.
        application_name: shown in ``pg_stat_activity``.
        timeout: seconds for opening the connection and, by the server's clock, for each statement; the client gives a
            statement a little more, then gives the connection up.
    """

    def __init__(self, database_url: str, *, application_name: str, timeout: float) -> None:
        self._database_url = database_url
        self._timeout = timeout
        self._patience = timeout * 1.25
        self._settings = {
            "application_name": application_name,
            "default_transaction_isolation": READ_COMMITTED,
            "statement_timeout": str(int(timeout * 1000)),
            "lock_timeout": str(LOCK_TIMEOUT_MS),
            "idle_in_transaction_session_timeout": str(IDLE_IN_TRANSACTION_MS),
            "tcp_user_timeout": str(TCP_USER_TIMEOUT_MS),
        }
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None
        self._wrapped = False
        self._turn = asyncio.Lock()

    async def fetch(self, sql: str, *args: object) -> list[Any]:
        """Run one statement in a transaction of its own and return its rows.

        Raises:
            WorkerGone: the database does not know the worker any more.
            DatabaseUnavailable: the connection was lost, or the reply cannot be read; whether the statement took effect
                is not known.
            DatabaseError: the server refused it, and nothing was changed.
        """
        async with self._turn:
            try:
                connection = self._connection or await self._open()
                if self._wrapped:
                    async with connection.transaction(isolation="read_committed"):
                        return await connection.fetch(sql, *args, timeout=self._patience)
                return await connection.fetch(sql, *args, timeout=self._patience)
            except DatabaseError:
                raise
            except DRIVER_ERRORS as error:
                raise self._translated(error) from error
            except Exception as error:  # noqa: BLE001 - decoding raises whatever Python raises for such a value
                # A value that Python has no room for, such as a date after the year 9999. Its text may quote the row.
                self._drop()
                raise DatabaseUnavailable(f"a reply of the database cannot be read ({type(error).__name__})") from None
            except asyncio.CancelledError:
                self._drop()
                raise

    async def close(self) -> None:
        """Close the connection, politely for at most a second."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*DRIVER_ERRORS):
                await connection.close(timeout=1)

    async def _open(self) -> "asyncpg.Connection[asyncpg.Record]":
        connection = await open_connection(self._database_url, self._settings, self._timeout)
        try:
            self._wrapped = await connection.fetchval("show transaction_isolation") != READ_COMMITTED
        except BaseException:
            connection.terminate()
            raise
        self._connection = connection
        return connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    def _translated(self, error: Exception) -> Exception:
        if not isinstance(error, asyncpg.PostgresError):
            self._drop()
            return unavailable(self._database_url, error)
        if error.sqlstate == WORKER_GONE:
            return WorkerGone(str(error))
        if is_connection_loss(error):
            self._drop()
            return unavailable(self._database_url, error)
        # The primary message alone: a DETAIL may quote a row.
        return DatabaseError(f"Postgres refused a call of the worker: {error.args[0]} (SQLSTATE {error.sqlstate})")


async def open_connection(
    database_url: str,
    settings: dict[str, str],
    timeout: float,  # noqa: ASYNC109 - the driver's own
) -> "asyncpg.Connection[asyncpg.Record]":
    """Connect to a server that takes writes, within ``timeout`` seconds.

    Raises:
        DatabaseUnavailable: the URL cannot be read; the driver would quote a part of it, which may be the password.
        DRIVER_ERRORS: the server refuses or does not answer.
    """
    try:
        return await asyncpg.connect(
            database_url, timeout=timeout, server_settings=settings, target_session_attrs=SessionAttribute.read_write
        )
    except ValueError as error:
        if isinstance(error, OSError):
            raise  # a certificate that does not fit
        raise DatabaseUnavailable("the database URL, or a file that it names, cannot be read by the driver") from None


def unavailable(database_url: str, error: Exception) -> DatabaseUnavailable:
    """Return the error to raise for a lost connection, without user or password."""
    reason = str(error) or type(error).__name__
    return DatabaseUnavailable(f"lost or cannot reach {describe_url(database_url)}: {reason}")
