"""What Postgres said, from any driver, as an error of Tidegate: only what its own functions raise on purpose.

Everything else (a deadlock, a serialisation failure, a lost connection) stays the driver's own error, because it is
the caller's transaction and the caller's retry rule knows the driver's classes.
"""

from collections.abc import Iterator

from tidegate.errors import Conflict, DatabaseError, InvalidInput, SchemaOutdated, TidegateError
from tidegate.store.migrating import migrations

PREFIX = "tidegate: "
INVALID_PARAMETER = "22023"
WRONG_STATE = "55000"
NO_SCHEMA = "3F000"
NOT_THERE = frozenset({"42P01", "42883", "42703"})


def translate(error: Exception, invalid: type[InvalidInput]) -> TidegateError | None:
    """Return what to raise instead of a driver's error, or None to let it pass.

    ``invalid`` is the class for input that the database refuses; its functions say ``tidegate: <field>: <rule>``.
    """
    state, message = refusal_of(error)
    if message.startswith(PREFIX) and state in {INVALID_PARAMETER, WRONG_STATE}:
        reason = message.removeprefix(PREFIX)
        if state == WRONG_STATE:
            return Conflict(reason)
        field, colon, rule = reason.partition(": ")
        return invalid(field, rule) if colon else invalid("input", f"was refused: {reason}")
    if state == NO_SCHEMA:
        return SchemaOutdated(None, max(migrations()))
    if state in NOT_THERE and "tidegate." in message:
        return DatabaseError(
            f"the schema tidegate does not fit this release ({message}); "
            "bring it up to date with: tidegate schema migrate"
        )
    return None


def refusal_of(error: BaseException) -> tuple[str | None, str]:
    """Return SQLSTATE and primary message of an error of asyncpg, psycopg, psycopg2 or pg8000, wrapped or not."""
    for link in _links(error):
        diagnosis = getattr(link, "diag", None)
        state = getattr(link, "sqlstate", None) or getattr(link, "pgcode", None)
        if isinstance(state, str):
            return state, str(getattr(diagnosis, "message_primary", None) or (link.args[0] if link.args else ""))
        fields = link.args[0] if link.args else None
        if isinstance(fields, dict) and "C" in fields:
            return str(fields["C"]), str(fields.get("M", ""))
    return None, ""


def _links(error: BaseException) -> Iterator[BaseException]:
    # SQLAlchemy keeps the driver's error in `orig`; its asyncpg dialect wraps that once more, with the cause chained.
    original = getattr(error, "orig", None)
    first = original if isinstance(original, BaseException) else error
    if first.__cause__ is not None:
        yield first.__cause__
    yield first
