"""Every failure of the database as an error of Tidegate, for callers whose user is a person at a terminal.

The sessions of an application keep the driver's errors (see `tidegate.store.refusals`), because the application's own
retry rules know them. A command has no such rules: it prints one line.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from tidegate.errors import DatabaseError, DatabaseUnavailable, InvalidInput
from tidegate.store.engine import is_connection_loss
from tidegate.store.refusals import translate

_ADVICE: tuple[tuple[type[asyncpg.PostgresError], str], ...] = (
    (asyncpg.InsufficientPrivilegeError, "use a role that may, or grant it"),
    (asyncpg.ReadOnlySQLTransactionError, "this server is a standby; name the primary in --database-url"),
    (asyncpg.LockNotAvailableError, "another transaction holds it; try again"),
    (asyncpg.QueryCanceledError, "the statement took too long or was cancelled; try again"),
    (asyncpg.DeadlockDetectedError, "nothing was changed; try again"),
    (asyncpg.SerializationError, "nothing was changed; try again"),
)


@contextmanager
def translated() -> Iterator[None]:
    """Turn what the driver raises into `DatabaseUnavailable`, `DatabaseError` or the refusal that it stands for.

    Raises:
        InvalidInput, Conflict, SchemaOutdated: the database refused the call on purpose.
        DatabaseUnavailable: the connection was lost; whether a statement under way took effect is not known.
        DatabaseError: anything else that Postgres reports.
    """
    try:
        yield
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
        refusal = translate(error, InvalidInput)
        if refusal is not None:
            raise refusal from error
        for kind, advice in _ADVICE:
            if isinstance(error, kind):
                raise DatabaseError(f"Postgres refused: {error}; {advice}") from error
        reason = str(error) or type(error).__name__
        if is_connection_loss(error):
            raise DatabaseUnavailable(f"the connection to Postgres was lost: {reason}") from error
        raise DatabaseError(f"Postgres refused: {reason}") from error
