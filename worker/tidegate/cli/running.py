"""From a command's coroutine to its end: the engine, the schema it needs, and errors as one line each."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from tidegate.errors import ConfigurationError, SchemaOutdated, TidegateError

if TYPE_CHECKING:
    from tidegate.store.engine import Engine

T = TypeVar("T")

NO_DATABASE = (
    "no database is named; give --database-url or set TIDEGATE_DATABASE_URL to something like "
    "postgresql://user@host:5432/name, or start a database here with: tidegate dev"
)


def run(call: Callable[["Engine"], Awaitable[T]], database_url: str | None, *, any_schema: bool = False) -> T:
    """Run one call against the database and return its result.

    With ``any_schema`` the call runs on a missing or outdated schema too.

    Raises:
        ConfigurationError: no database is named.
        DatabaseUnavailable: it cannot be reached.
        SchemaOutdated: its schema is missing or older than this release.
    """
    if not database_url:
        raise ConfigurationError(NO_DATABASE)
    return asyncio.run(_run(call, database_url, any_schema))


async def _run(call: Callable[["Engine"], Awaitable[T]], database_url: str, any_schema: bool) -> T:
    from tidegate.store.engine import Engine
    from tidegate.store.failures import translated
    from tidegate.store.urls import check_database_url

    engine = Engine(check_database_url(database_url), max_size=2, application_name="tidegate cli")
    try:
        with translated():
            if not any_schema:
                await require_schema(engine)
            return await call(engine)
    except TidegateError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            # the driver made an error of its own out of Ctrl-C, which it was all the same
            raise asyncio.CancelledError from None
        raise
    finally:
        await engine.close()


async def require_schema(engine: "Engine") -> None:
    """Raise `SchemaOutdated` when the schema is missing or older than this release; a newer one serves it too."""
    from tidegate.store.migrating import schema_state

    state = await schema_state(engine)
    if state.version is None or state.version < state.latest:
        raise SchemaOutdated(state.version, state.latest)
