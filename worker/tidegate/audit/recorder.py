"""Installs the recorder into a database and reads a history back."""

from functools import cache
from importlib.resources import files
from typing import Any

from tidegate.audit.histories import Drift, Event, EventKind, History, JobRow, Run
from tidegate.store.engine import Engine


async def install(engine: Engine) -> None:
    """Install the recorder, for test and demo databases only; a second call starts a new history.

    Raises:
        asyncpg.PostgresError: no schema ``tidegate`` yet, or a job is running (55000).
    """
    async with engine.begin() as connection:
        await connection.execute(_text("events"))


async def record_run(engine: Engine, item: str, worker: str) -> None:
    """Write that an actor got to its end: the side effect that tells whether a job was done, and how often.

    Args:
        engine: connections to the database of the recorder.
        item: what the job is about: its argument ``item``, or its ``job_key``.
        worker: name of the worker that this process registered.
    """
    await engine.execute(_text("record_run"), item, worker)


async def read_history(engine: Engine, *, recount: bool = False) -> History:
    """Read all that was recorded and the jobs that are left, in one snapshot.

    Args:
        engine: connections to the database of the recorder.
        recount: also compare every kept count with the truth; takes the locks of all queues and keys.
    """
    async with engine.begin() as connection:
        # events of a transaction and its changes are seen together, or neither
        await connection.execute("set transaction isolation level repeatable read, read only")
        events = await connection.fetch(_text("read_events"))
        runs = await connection.fetch(_text("read_runs"))
        jobs = await connection.fetch(_text("read_jobs"))
    drift = await engine.fetch(_text("read_drift")) if recount else []
    return History(
        events=[_event(row) for row in events],
        jobs=[JobRow(**dict(row)) for row in jobs],
        runs=[Run(**dict(row)) for row in runs] or None,
        drift=[Drift(**dict(row)) for row in drift],
    )


def _event(row: Any) -> Event:
    fields = dict(row)
    return Event(**{**fields, "kind": EventKind(fields["kind"])})


@cache
def _text(name: str) -> str:
    return (files("tidegate.audit") / f"{name}.sql").read_text(encoding="utf-8")
