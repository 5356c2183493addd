"""One statement on any kind of session, inside the caller's transaction.

Nothing here begins, commits or configures anything. Every statement returns one column of text and takes only text,
numbers and booleans, so that row factories, codecs, date styles and search paths of the caller's session make no
difference. SQLAlchemy and psycopg are found among the loaded modules: who has such a session has imported them.
"""

import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar, overload

import asyncpg

from tidegate.errors import ConfigurationError, DatabaseUnavailable, InvalidInput
from tidegate.routing.senders import AnySession, AsyncSession, SyncSession
from tidegate.store.engine import Engine, describe_url, is_connection_loss
from tidegate.store.refusals import translate
from tidegate.store.statements import statement

T = TypeVar("T")

Scalar: TypeAlias = str | int | float | bool | None
"""What a statement may take as a parameter."""

KINDS = (
    "an asyncpg Connection, a SQLAlchemy AsyncConnection, AsyncSession, Connection or Session, "
    "or a psycopg 3 AsyncConnection or Connection"
)
"""The kinds of sessions, for messages."""

_PLACEHOLDER = re.compile(r"\$(\d+)")
_SQLALCHEMY_SPECIAL = re.compile(r"\$(\d+)|:")
_PSYCOPG_SPECIAL = re.compile(r"\$(\d+)|%")


@dataclass(frozen=True, slots=True)
class Query(Generic[T]):
    """One statement to run: the name of its file, its parameters, and how to read its rows.

    ``invalid`` is the error raised when the database refuses the input (SQLSTATE 22023). ``own_transaction`` makes an
    engine open a READ COMMITTED transaction for a function that insists on it, whatever the server's default is.
    """

    name: str
    args: tuple[Scalar, ...]
    read: Callable[[list[str | None]], T]
    invalid: type[InvalidInput] = InvalidInput
    own_transaction: bool = False


@dataclass(frozen=True, slots=True)
class _Adapter:
    fetch: Callable[[Any, str, tuple[Scalar, ...]], Any]
    is_async: bool


@overload
def run(session: AsyncSession | Engine, query: Query[T]) -> Awaitable[T]: ...
@overload
def run(session: SyncSession, query: Query[T]) -> T: ...
def run(session: AnySession | Engine, query: Query[T]) -> T | Awaitable[T]:
    """Run a query on the session: at once on a synchronous one, else when the result is awaited.

    An engine runs it in a transaction of its own.

    Raises:
        ConfigurationError: the session is of no supported kind, or not one of Postgres.
        SchemaOutdated: the schema ``tidegate`` is missing or of an older release.
        InvalidInput, NotFound, Conflict: the database refused the call; other errors of the driver pass unchanged.
    """
    if isinstance(session, Engine):
        return _run_on_engine(session, query)
    adapter = _adapter(type(session))
    if adapter.is_async:
        return _run_awaited(adapter, session, query)
    with _translated(query):
        rows = adapter.fetch(session, statement(query.name), query.args)
    return query.read([_text(row) for row in rows])


def is_async(session: object) -> bool:
    """Tell whether calls on this session are awaited.

    Raises:
        ConfigurationError: the session is of no supported kind.
    """
    return _adapter(type(session)).is_async


async def _run_awaited(adapter: _Adapter, session: object, query: Query[T]) -> T:
    with _translated(query):
        rows = await adapter.fetch(session, statement(query.name), query.args)
    return query.read([_text(row) for row in rows])


async def _run_on_engine(engine: Engine, query: Query[T]) -> T:
    try:
        if query.own_transaction:
            async with engine.begin() as connection:
                return await _run_awaited(_adapter(type(connection)), connection, query)
        with _translated(query):
            rows = await engine.fetch(statement(query.name), *query.args)
    except Exception as error:
        if is_connection_loss(error):
            raise DatabaseUnavailable(
                f"lost {describe_url(engine.database_url)} during a statement, which may have taken effect: "
                "look before you send it again (a job_key makes an enqueue safe to repeat)"
            ) from error
        raise
    return query.read([row[0] for row in rows])


@contextmanager
def _translated(query: Query[Any]) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        refusal = translate(error, query.invalid)
        if refusal is None:
            raise
        # The driver's error would repeat our message, and SQLAlchemy's would print the parameters.
        raise refusal from None


def _text(value: str | bytes | None) -> str | None:
    # psycopg hands out bytes where the client encoding is SQL_ASCII.
    return value.decode() if isinstance(value, bytes) else value


def _adapter(kind: type[object]) -> _Adapter:
    found = _known.get(kind)
    if found is None:
        for module, name, adapter in _ADAPTERS:
            known = getattr(sys.modules.get(module), name, None)
            if isinstance(known, type) and issubclass(kind, known):
                found = _known[kind] = adapter
                break
        else:
            raise ConfigurationError(f"session must be {KINDS}; got {kind.__module__}.{kind.__qualname__}")
    return found


async def _fetch_asyncpg(connection: Any, sql: str, args: tuple[Scalar, ...]) -> list[str | None]:
    return [row[0] for row in await connection.fetch(sql, *args, record_class=asyncpg.Record)]


def _sqlalchemy_call(connection: Any, sql: str, args: tuple[Scalar, ...]) -> tuple[Any, dict[str, Scalar]]:
    if connection.dialect.name != "postgresql":
        raise ConfigurationError(f"session must be one of Postgres; this one is of {connection.dialect.name}")
    text = _SQLALCHEMY_SPECIAL.sub(lambda found: f":p{found[1]}" if found[1] else r"\:", sql)
    # Rows of a call are few; a server-side cursor, if the caller streams by default, would only defer the call.
    clause = sys.modules["sqlalchemy"].text(text).execution_options(stream_results=False)
    return clause, {f"p{number}": value for number, value in enumerate(args, 1)}


def _fetch_sqlalchemy(connection: Any, sql: str, args: tuple[Scalar, ...]) -> list[str | None]:
    clause, parameters = _sqlalchemy_call(connection, sql, args)
    return list(connection.execute(clause, parameters).scalars())


async def _fetch_sqlalchemy_async(connection: Any, sql: str, args: tuple[Scalar, ...]) -> list[str | None]:
    clause, parameters = _sqlalchemy_call(connection, sql, args)
    return list((await connection.execute(clause, parameters)).scalars())


def _fetch_sqlalchemy_session(session: Any, sql: str, args: tuple[Scalar, ...]) -> list[str | None]:
    # The session's connection, not the session: no autoflush, no ORM events, the same transaction.
    return _fetch_sqlalchemy(session.connection(), sql, args)


async def _fetch_sqlalchemy_async_session(session: Any, sql: str, args: tuple[Scalar, ...]) -> list[str | None]:
    return await _fetch_sqlalchemy_async(await session.connection(), sql, args)


def _psycopg_call(sql: str, args: tuple[Scalar, ...]) -> tuple[str, dict[str, Scalar]]:
    text = _PSYCOPG_SPECIAL.sub(lambda found: f"%(p{found[1]})s" if found[1] else "%%", sql)
    return text, {f"p{number}": value for number, value in enumerate(args, 1)}


def _fetch_psycopg(connection: Any, sql: str, args: tuple[Scalar, ...]) -> list[str | None]:
    psycopg = sys.modules["psycopg"]
    # A cursor class and row factory of our own: the connection's may be anything.
    with psycopg.Cursor(connection, row_factory=sys.modules["psycopg.rows"].tuple_row) as cursor:
        return [row[0] for row in cursor.execute(*_psycopg_call(sql, args)).fetchall()]


async def _fetch_psycopg_async(connection: Any, sql: str, args: tuple[Scalar, ...]) -> list[str | None]:
    psycopg = sys.modules["psycopg"]
    async with psycopg.AsyncCursor(connection, row_factory=sys.modules["psycopg.rows"].tuple_row) as cursor:
        await cursor.execute(*_psycopg_call(sql, args))
        return [row[0] for row in await cursor.fetchall()]


_ADAPTERS: tuple[tuple[str, str, _Adapter], ...] = (
    ("asyncpg", "Connection", _Adapter(_fetch_asyncpg, is_async=True)),
    ("asyncpg.pool", "PoolConnectionProxy", _Adapter(_fetch_asyncpg, is_async=True)),
    ("sqlalchemy.ext.asyncio", "AsyncSession", _Adapter(_fetch_sqlalchemy_async_session, is_async=True)),
    ("sqlalchemy.ext.asyncio", "async_scoped_session", _Adapter(_fetch_sqlalchemy_async_session, is_async=True)),
    ("sqlalchemy.ext.asyncio", "AsyncConnection", _Adapter(_fetch_sqlalchemy_async, is_async=True)),
    ("sqlalchemy.orm", "Session", _Adapter(_fetch_sqlalchemy_session, is_async=False)),
    ("sqlalchemy.orm", "scoped_session", _Adapter(_fetch_sqlalchemy_session, is_async=False)),
    ("sqlalchemy", "Connection", _Adapter(_fetch_sqlalchemy, is_async=False)),
    ("psycopg", "AsyncConnection", _Adapter(_fetch_psycopg_async, is_async=True)),
    ("psycopg", "Connection", _Adapter(_fetch_psycopg, is_async=False)),
)

_known: dict[type[object], _Adapter] = {}
