"""Enqueue: one job in a statement, or many in few."""

import json
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from tidegate.errors import InvalidJob
from tidegate.model.jobs import JobOptions
from tidegate.model.payloads import serialise_headers
from tidegate.routing.senders import AsyncSession, EnqueuedJob, SyncSession
from tidegate.store.engine import Engine
from tidegate.store.replies import first
from tidegate.store.sessions import Query, Scalar, is_async, run

ROWS = 5_000
"""Most jobs of one statement of ``enqueue_many``: each statement costs the claim one row of mail a lane."""

CHARACTERS = 8 * 1024 * 1024
"""Most JSON text of one such statement, apart from its last job."""


class Sender:
    """Puts an app's jobs into the database; without a session, over the app's engine.

    Args:
        engine: returns the app's pool; asked when first needed.
        max_payload_bytes: bytes of JSON that one payload may have; the database has a bound of its own.
    """

    def __init__(self, engine: Callable[[], Engine], max_payload_bytes: int) -> None:
        self._engine = engine
        self._max_payload_bytes = max_payload_bytes

    @property
    def max_payload_bytes(self) -> int:
        """Bytes of JSON that one payload may have."""
        return self._max_payload_bytes

    def is_async(self, session: object) -> bool:
        """Tell whether calls on this session are awaited.

        Raises:
            ConfigurationError: the session is of no supported kind.
        """
        return is_async(session)

    def send_now(self, session: SyncSession, actor: str, options: JobOptions, payload: str) -> EnqueuedJob:
        """Insert one job in the caller's transaction, blocking."""
        return run(session, self._one(actor, options, payload))

    def send(
        self, session: AsyncSession | None, actor: str, options: JobOptions, payload: str
    ) -> Awaitable[EnqueuedJob]:
        """Insert one job in the caller's transaction, or in one of its own."""
        return run(self._engine() if session is None else session, self._one(actor, options, payload))

    def send_many_now(
        self, session: SyncSession, actor: str, options: JobOptions, payloads: Iterator[str]
    ) -> list[EnqueuedJob]:
        """Insert one job for each payload in the caller's transaction, blocking."""
        return [job for query in self._many(actor, options, payloads) for job in run(session, query)]

    async def send_many(
        self, session: AsyncSession | None, actor: str, options: JobOptions, payloads: Iterator[str]
    ) -> list[EnqueuedJob]:
        """Insert one job for each payload, in the caller's transaction or all in one of its own."""
        if session is None:
            async with self._engine().begin() as connection:
                return await self.send_many(connection, actor, options, payloads)
        return [job for query in self._many(actor, options, payloads) for job in await run(session, query)]

    def _one(self, actor: str, options: JobOptions, payload: str) -> Query[EnqueuedJob]:
        expires_at, expires_after = _expiry(options)
        args: tuple[Scalar, ...] = (
            options.queue,
            actor,
            payload,
            options.limit_key or "",
            options.group_key,
            options.priority,
            _instant(options.run_at),
            _seconds(options.delay),
            expires_at,
            expires_after,
            options.max_attempts,
            _seconds(options.timeout),
            options.job_key,
            None if options.headers is None else serialise_headers(options.headers),
        )
        return Query("enqueue", args, _job, InvalidJob)

    def _many(self, actor: str, options: JobOptions, payloads: Iterator[str]) -> Iterator[Query[list[EnqueuedJob]]]:
        expires_at, expires_after = _expiry(options)
        common: dict[str, object] = {
            "queue": options.queue,
            "actor": actor,
            "limit_key": options.limit_key or "",
            "group_key": options.group_key,
            "priority": options.priority,
            "run_at": _instant(options.run_at),
            "delay": _seconds(options.delay),
            "expires_at": expires_at,
            "max_attempts": options.max_attempts,
            "timeout": _seconds(options.timeout),
            "headers": None if options.headers is None else dict(options.headers),
        }
        given = {name: value for name, value in common.items() if value is not None}
        # The same for each job, and the payloads are JSON already: they are put together as text.
        opening = json.dumps(given)[:-1] + ', "payload": '
        for texts in _chunks(payloads):
            jobs = "[" + ",".join(f"{opening}{text}}}" for text in texts) + "]"
            yield Query("enqueue_many", (jobs, expires_after), _jobs, InvalidJob)


def _chunks(payloads: Iterator[str]) -> Iterator[list[str]]:
    texts: list[str] = []
    size = 0
    for text in payloads:
        texts.append(text)
        size += len(text)
        if len(texts) == ROWS or size > CHARACTERS:
            yield texts
            texts, size = [], 0
    if texts:
        yield texts


def _expiry(options: JobOptions) -> tuple[str | None, float | None]:
    """The instant, or the seconds that the database's own clock is asked to add."""
    if isinstance(options.expires, timedelta):
        return None, options.expires.total_seconds()
    return _instant(options.expires), None


def _instant(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat()


def _seconds(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds()


def _job(rows: list[str | None]) -> EnqueuedJob:
    return EnqueuedJob(*first(rows))


def _jobs(rows: list[str | None]) -> list[EnqueuedJob]:
    found: list[Any] = first(rows)
    return [EnqueuedJob(number, created) for number, created in found]
