"""Jobs: their states, the options of one enqueue, and what is shown of a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from tidegate.errors import InvalidJob
from tidegate.model.defaults import MAX_MAX_ATTEMPTS, MAX_PRIORITY, MIN_PRIORITY
from tidegate.model.durations import Duration
from tidegate.model.fields import Json, Row, check_integer, check_span
from tidegate.model.names import check_key, check_name
from tidegate.model.payloads import serialise_headers


class JobState(StrEnum):
    """Where a job stands."""

    SCHEDULED = "scheduled"
    """Its ``run_at`` lies ahead."""

    READY = "ready"
    """It may start as soon as a slot and its limits allow."""

    RUNNING = "running"
    """A worker holds it."""

    SUCCEEDED = "succeeded"
    DEAD = "dead"
    """Its attempts are used up, or its failure was final; it can be retried."""

    CANCELLED = "cancelled"
    EXPIRED = "expired"
    """It had not started when its ``expires`` came."""


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """What ``using()``, an actor or the built-in defaults say about a job; None says nothing.

    ``run_at`` and ``expires`` are aware datetimes, ``delay`` and an ``expires`` from now are timedeltas, ``timeout`` is
    the longest run of one attempt. Raises ``InvalidJob`` or ``InvalidName`` with the option's name.
    """

    limit_key: str | None = None
    group_key: str | None = None
    priority: int | None = None
    run_at: datetime | None = None
    delay: timedelta | None = None
    expires: timedelta | datetime | None = None
    queue: str | None = None
    max_attempts: int | None = None
    timeout: timedelta | None = None
    job_key: str | None = None
    headers: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        for field in ("limit_key", "group_key"):
            if (value := getattr(self, field)) is not None:
                check_key(value, field)
        for field in ("queue", "job_key"):
            if (value := getattr(self, field)) is not None:
                check_name(value, field)
        if self.priority is not None:
            check_integer(self.priority, "priority", MIN_PRIORITY, MAX_PRIORITY, InvalidJob)
        if self.max_attempts is not None:
            check_integer(self.max_attempts, "max_attempts", 1, MAX_MAX_ATTEMPTS, InvalidJob)
        if self.timeout is not None:
            check_span(self.timeout, "timeout", InvalidJob, zero=False)
        self._check_times()
        if self.headers is not None:
            if not isinstance(self.headers, Mapping):
                raise InvalidJob("headers", f"must map text to text; got {type(self.headers).__name__}")
            serialise_headers(self.headers)
            object.__setattr__(self, "headers", dict(self.headers))

    def _check_times(self) -> None:
        if self.delay is not None:
            check_span(self.delay, "delay", InvalidJob, zero=True)
            if self.run_at is not None:
                raise InvalidJob("delay", "cannot go together with run_at; give one of the two")
        if self.run_at is not None:
            _check_instant(self.run_at, "run_at")
        if isinstance(self.expires, timedelta):
            check_span(self.expires, "expires", InvalidJob, zero=False)
        elif self.expires is not None:
            _check_instant(self.expires, "expires", " or a timedelta from now")

    def merged(self, base: JobOptions) -> JobOptions:
        """These options over those of ``base``: each one given here wins, and a start time here replaces the base's."""
        chosen: dict[str, Any] = {}
        for field in fields(self):
            own = getattr(self, field.name)
            chosen[field.name] = getattr(base, field.name) if own is None else own
        if self.run_at is not None or self.delay is not None:
            chosen |= {"run_at": self.run_at, "delay": self.delay}
        return replace(self, **chosen)


def _check_instant(value: object, field: str, alternative: str = "") -> None:
    if not isinstance(value, datetime):
        raise InvalidJob(field, f"must be a datetime with a time zone{alternative}; got {type(value).__name__}")
    if value.utcoffset() is None:
        raise InvalidJob(field, "must have a time zone, as in datetime.now(timezone.utc); this one is naive")
    try:
        value.astimezone(UTC)
    except OverflowError:
        raise InvalidJob(field, "must lie within the years 1 to 9999 in UTC too; this one does not") from None


class JobStatus(Row):
    """One row of the view ``job_status``, waiting, running or finished. The payload is not part of its ``repr``."""

    id: int
    queue: str
    actor: str
    state: JobState
    limit_key: str = ""
    group_key: str = ""
    priority: int = 0
    run_at: datetime
    attempt: int = 0
    max_attempts: int
    timeout: Duration | None = None
    expires_at: datetime | None = None
    job_key: str | None = None
    worker: UUID | None = None
    claim: int | None = None
    lost: int = 0
    cancel_at: datetime | None = None
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    keep_until: datetime | None = None
    error: str | None = None
    traceback: str | None = None
    bytes: int | None = None
    headers: Annotated[dict[str, str] | None, Json] = None
    payload: Annotated[dict[str, Any] | None, Json, Field(repr=False)] = None
