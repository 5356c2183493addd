"""What routing asks of the store: kinds of sessions, the job to send, and who sends it.

Sessions are told apart by shape, so that neither SQLAlchemy nor psycopg need be installed for a type checker to know
whether a call returns a value or an awaitable.
"""

from collections.abc import Awaitable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from tidegate.model.jobs import JobOptions


class SyncSession(Protocol):
    """SQLAlchemy ``Connection``, ``Session`` or ``scoped_session``, or a psycopg 3 ``Connection``."""

    def commit(self) -> None:
        """Commit: the caller's business, never called by Tidegate."""


class CommittingAsyncSession(Protocol):
    """SQLAlchemy ``AsyncConnection``, ``AsyncSession`` ``async_scoped_session``, psycopg 3 ``AsyncConnection``."""

    def commit(self) -> Coroutine[Any, Any, None]:
        """Commit: the caller's business, never called by Tidegate."""


class FetchingAsyncSession(Protocol):
    """An asyncpg connection, also one lent by a pool."""

    def fetchval(self, query: str, /, *args: object) -> Coroutine[Any, Any, Any]:
        """Run a statement and return its first value."""


AsyncSession: TypeAlias = CommittingAsyncSession | FetchingAsyncSession
"""Every session whose calls are awaited."""

AnySession: TypeAlias = SyncSession | AsyncSession
"""Every session that ``set_limit``, ``clear_limit`` and ``using(session=)`` take."""


@dataclass(frozen=True, slots=True)
class EnqueuedJob:
    """What an enqueue returns.

    Attributes:
        id: the job's number.
        created: False when a job with the same ``job_key`` waits or runs in this queue; ``id`` is then that job's.
    """

    id: int
    created: bool


class JobSender(Protocol):
    """Puts jobs into the database. A session of None is the app's own pool.

    Options are checked, with the actor's own filled in and ``queue`` set; None in them is left to the database's
    defaults. Payloads are JSON text that the actor's signature has accepted.
    """

    @property
    def max_payload_bytes(self) -> int:
        """Bytes of JSON that one payload may have."""

    def is_async(self, session: object) -> bool:
        """Tell whether calls on this session are awaited; ConfigurationError for an unsupported one."""

    def send_now(self, session: SyncSession, actor: str, options: JobOptions, payload: str) -> EnqueuedJob:
        """Insert one job in the caller's transaction, blocking."""

    def send(
        self, session: AsyncSession | None, actor: str, options: JobOptions, payload: str
    ) -> Awaitable[EnqueuedJob]:
        """Insert one job in the caller's transaction, or in one of its own."""

    def send_many_now(
        self, session: SyncSession, actor: str, options: JobOptions, payloads: Iterator[str]
    ) -> list[EnqueuedJob]:
        """Insert one job for each payload in the caller's transaction, blocking; in the order of the payloads."""

    def send_many(
        self, session: AsyncSession | None, actor: str, options: JobOptions, payloads: Iterator[str]
    ) -> Awaitable[list[EnqueuedJob]]:
        """Insert one job for each payload, all or none of them, in the order of the payloads."""
