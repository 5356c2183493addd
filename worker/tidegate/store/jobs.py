"""Jobs after they were enqueued: list, show, retry, cancel."""

from collections.abc import Awaitable, Iterable
from typing import Any, overload

from pydantic import ValidationError

from tidegate.errors import InvalidInput, NotFound, TidegateError
from tidegate.model.fields import check_integer
from tidegate.model.jobs import JobState, JobStatus
from tidegate.routing.senders import AnySession, AsyncSession, SyncSession
from tidegate.store.engine import Engine
from tidegate.store.replies import every, first, with_spans
from tidegate.store.sessions import Query, run

MAX_LISTED = 100_000
"""Most jobs that one call lists."""

_MAX_ID = 2**63 - 1
_SPANS = ("timeout",)


@overload
def list_jobs(
    session: AsyncSession | Engine,
    *,
    states: Iterable[str] | None = None,
    queue: str | None = None,
    actor: str | None = None,
    limit_key: str | None = None,
    limit: int = 100,
) -> Awaitable[list[JobStatus]]: ...
@overload
def list_jobs(
    session: SyncSession,
    *,
    states: Iterable[str] | None = None,
    queue: str | None = None,
    actor: str | None = None,
    limit_key: str | None = None,
    limit: int = 100,
) -> list[JobStatus]: ...
def list_jobs(
    session: AnySession | Engine,
    *,
    states: Iterable[str] | None = None,
    queue: str | None = None,
    actor: str | None = None,
    limit_key: str | None = None,
    limit: int = 100,
) -> list[JobStatus] | Awaitable[list[JobStatus]]:
    """Return the newest jobs that fit every filter given, without payloads, headers and tracebacks.

    Args:
        session: one of the kinds in ``tidegate.store.sessions.KINDS``, or an engine.
        states: any of ``JobState``; all of them when left out.
        queue: only this queue's jobs.
        actor: only this actor's jobs.
        limit_key: only jobs of this limit key; empty text for jobs without one.
        limit: 1 to 100,000 jobs.

    Raises:
        InvalidInput: a state or the limit is none that is known.
        TidegateError: a row holds a value that Python cannot; the message names the job.
    """
    check_integer(limit, "limit", 1, MAX_LISTED, InvalidInput)
    wanted = None if states is None else ",".join(_state(state) for state in states) or None
    return run(session, Query("list_jobs", (wanted, queue, actor, limit_key, limit), _statuses))


@overload
def job_status(session: AsyncSession | Engine, job: int) -> Awaitable[JobStatus]: ...
@overload
def job_status(session: SyncSession, job: int) -> JobStatus: ...
def job_status(session: AnySession | Engine, job: int) -> JobStatus | Awaitable[JobStatus]:
    """Return everything that is kept of one job, payload, headers and traceback included.

    Raises:
        NotFound: there is no such job (any more).
    """

    def read(rows: list[str | None]) -> JobStatus:
        row = first(rows)
        if row is None:
            raise NotFound(f"job {job}", "finished jobs go after their retention; list jobs with: tidegate jobs list")
        return _status(row)

    return run(session, Query("job_status", (_id(job),), read))


@overload
def retry_job(session: AsyncSession | Engine, job: int) -> Awaitable[str]: ...
@overload
def retry_job(session: SyncSession, job: int) -> str: ...
def retry_job(session: AnySession | Engine, job: int) -> str | Awaitable[str]:
    """Make a finished job ready again with all its attempts before it, or a scheduled one now; returns its state.

    Raises:
        NotFound: there is no such job (any more).
        Conflict: it runs or is ready already, or another job has its job_key.
    """

    def read(rows: list[str | None]) -> str:
        state: str | None = first(rows)
        if state is None:
            raise NotFound(f"job {job}", "finished jobs go after their retention; list jobs with: tidegate jobs list")
        return state

    return run(session, Query("retry_job", (_id(job),), read))


@overload
def cancel_job(session: AsyncSession | Engine, job: int) -> Awaitable[str]: ...
@overload
def cancel_job(session: SyncSession, job: int) -> str: ...
def cancel_job(session: AnySession | Engine, job: int) -> str | Awaitable[str]:
    """Cancel a waiting job (returns ``cancelled``) or tell a running one's worker to stop it (``cancelling``).

    Raises:
        NotFound: the job is finished, or there is none.
    """

    def read(rows: list[str | None]) -> str:
        outcome: str | None = first(rows)
        if outcome is None:
            raise NotFound(f"waiting or running job {job}", f"see what became of it with: tidegate jobs show {job}")
        return outcome

    return run(session, Query("cancel_job", (_id(job),), read, own_transaction=True))


def _id(job: int) -> int:
    return check_integer(job, "job", 1, _MAX_ID, InvalidInput)


def _state(state: str) -> str:
    try:
        return JobState(state).value
    except ValueError:
        raise InvalidInput("state", f"must be one of {', '.join(JobState)}; got {state!r}") from None


def _statuses(rows: list[str | None]) -> list[JobStatus]:
    return [_status(row) for row in every(rows)]


def _status(row: dict[str, Any]) -> JobStatus:
    try:
        return JobStatus.model_validate(with_spans(row, _SPANS))
    except (ValidationError, OverflowError) as error:
        # The names of the columns alone: the values are the job's own.
        columns = (
            {str(part["loc"][0]) for part in error.errors(include_input=False) if part["loc"]}
            if isinstance(error, ValidationError)
            else set(_SPANS)
        )
        raise TidegateError(
            f"job {row.get('id')} holds a value that cannot be shown (in {', '.join(sorted(columns))}); "
            "look at its row in tidegate.job_status with psql"
        ) from None
