"""Connections of the machine: one worker each, with a transaction that may stay open, and what it sees."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from typing import Any
from uuid import uuid4

import psycopg
from psycopg.rows import namedtuple_row

from tests.postgres.machine.models import Ask, Job, Limit, Queue, State

LOCK_TIMEOUT = "20ms"
"""Of the machine's connections. Nobody else acts meanwhile, so what waits at all waits in vain."""

REGISTER = "select tidegate.register_worker(%s::uuid, 'worker', '{a,b}', '{x,y}', 8, null, '1 millisecond', 'test')"

HEARD = """
update tidegate.workers set contact_since = clock_timestamp() - interval '1 day', seen_at = clock_timestamp() + %s
 where id = %s::uuid"""

FOR_LONG = timedelta(days=1)
"""A worker that was heard so much after now will not be missed before the example ends."""

SILENT = timedelta(days=-1)

JOBS = """
select id, queue, actor, limit_key as key, group_key as group, priority::int, run_at, expires_at, bytes as size, state,
       attempt::int, max_attempts::int, lost::int, cancel_at is not null as cancelled, worker::text, claim
  from tidegate.jobs"""

LOCKS = (
    "perform from queues order by queues.name for no key update;",
    "perform from keys order by key for no key update;",
)

TABLES = """
select format('tidegate.%I', relname) from pg_class
 where relnamespace = 'tidegate'::regnamespace and relkind = 'r' and relname not like 'schema\\_%'"""

QUICK_BACKOFF = """
create or replace function tidegate.backoff(attempt int) returns interval language sql as $$
  select interval '2 milliseconds'
$$"""


class Blocked(Exception):  # noqa: N818 - it is what the machine looks for
    """A lock was not given; nothing happened, and an open transaction was rolled back."""


@dataclass(frozen=True, slots=True)
class Started:
    """What a claim returned. ``hint``: when to ask again."""

    ids: list[int]
    hint: datetime | None
    stale: list[int]


@dataclass(slots=True)
class Client:
    """One connection and its worker.

    Attributes:
        changes: what its open transaction changed; None without one.
        wakes: keys that committed outcomes found busy.
        later: those of the open transaction.
        claims: numbers of the next ones; every sixteenth raises low waters, so here every second does.
    """

    connection: psycopg.Connection[Any]
    worker: str = field(default_factory=lambda: str(uuid4()))
    changes: State | None = None
    wakes: set[str] = field(default_factory=set)
    later: set[str] = field(default_factory=set)
    claims: Iterator[int] = field(default_factory=lambda: count(8, 8))

    @classmethod
    def connect(cls, database_url: str) -> Client:
        """Open a connection and bound its waits."""
        connection = psycopg.connect(database_url, autocommit=True, row_factory=namedtuple_row)
        connection.execute(f"set lock_timeout = '{LOCK_TIMEOUT}'")
        return cls(connection)

    def register(self) -> None:
        """Take part as a new worker."""
        self.worker = str(uuid4())
        self.claims = count(8, 8)
        self.fetch(REGISTER, self.worker)
        self.hear(self.worker, FOR_LONG)

    def hear(self, worker: str, when: timedelta) -> None:
        """Let a worker have been heard so long after now."""
        self.fetch(HEARD, when, worker)

    def fetch(self, sql: str, *values: object) -> list[Any]:
        """Run a statement.

        Raises:
            Blocked: it had to wait; an open transaction is over.
        """
        try:
            cursor = self.connection.execute(sql, values, prepare=True)
            return cursor.fetchall() if cursor.description else []
        except psycopg.errors.LockNotAvailable as error:
            if self.changes is not None:
                self.rollback()
            raise Blocked from error

    def begin(self) -> None:
        """Open a transaction."""
        self.connection.execute("begin")
        self.changes = State()

    def commit(self) -> State:
        """Commit; return what changed."""
        self.connection.execute("commit")
        changes, self.changes = self.changes, None
        self.wakes |= self.later
        self.later.clear()
        return changes or State()

    def rollback(self) -> None:
        """Undo the open transaction."""
        self.connection.execute("rollback")
        self.changes = None
        self.later.clear()

    def note_busy(self, keys: Sequence[str] | None) -> None:
        """Note keys to wake once this is committed."""
        (self.wakes if self.changes is None else self.later).update(keys or ())

    def wake(self) -> None:
        """Do what the caller of an outcome does after its commit; what is busy stays for the next time."""
        if self.wakes:
            self.wakes = set(self.fetch("select tidegate.wake(%s)", sorted(self.wakes))[0][0])

    def now(self) -> datetime:
        """Return the database's time."""
        instant: datetime = self.fetch("select clock_timestamp()")[0][0]
        return instant

    def jobs(self) -> dict[int, Job]:
        """Return all jobs as this connection sees them."""
        return {row.id: job_of(row) for row in self.fetch(JOBS)}

    def claim(self, ask: Ask, done: Sequence[Job] = ()) -> Started:
        """Claim, and hand in what is done."""
        number = next(self.claims)
        rows = self.fetch(
            "select id, next_at, wake, stale from tidegate.claim(%s::uuid, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            self.worker,
            number,
            ask.queue,
            ask.slots,
            list(ask.rooms),
            list(ask.rooms.values()),
            ask.budget,
            ask.fair,
            [job.id for job in done],
            [job.token[1] for job in done if job.token],
        )
        last = rows.pop() if rows and rows[-1].id is None else None
        if last:
            self.note_busy(last.wake)
        return Started([row.id for row in rows], last.next_at if last else None, list(last.stale or ()) if last else [])

    def outcome(
        self, how: str, tokens: Sequence[tuple[int, int]], *more: object, worker: str | None = None
    ) -> list[int]:
        """Call ``ack``, ``nack`` or ``release`` with (job, claim); return the stale ones."""
        marks = "".join(", %s" for _ in more)
        row = self.fetch(
            f"select stale, wake from tidegate.{how}(%s::uuid, %s::bigint[], %s::bigint[]{marks})",  # noqa: S608
            worker or self.worker,
            [job for job, _ in tokens],
            [claim for _, claim in tokens],
            *more,
        )[0]
        self.note_busy(row.wake)
        return sorted(row.stale or ())

    def put(self, jobs: Sequence[Mapping[str, object]]) -> list[int]:
        """Enqueue; return the ids."""
        return [row.id for row in self.fetch("select id from tidegate.enqueue_many(%s)", json.dumps(jobs))]

    def change_limit(self, key: str, changes: Mapping[str, object]) -> Limit:
        """Change a policy; return it with the marks that are left."""
        row = self.fetch("select * from tidegate.change_limit(%s, %s)", key, json.dumps(changes))[0]
        marks = self.fetch("select started_at, n from tidegate.limit_starts where key = %s", key)
        return Limit(
            row.max_running,
            row.max_starts,
            row.rate_window,
            row.weight,
            tuple(sorted(mark.started_at for mark in marks for _ in range(mark.n))),
        )

    def set_queue(self, name: str, changes: Mapping[str, object]) -> Queue:
        """Change a queue; return what is set."""
        row = self.fetch("select declared_order, suspended from tidegate.set_queue(%s, %s)", name, json.dumps(changes))[
            0
        ]
        return Queue(row.declared_order, row.suspended)


def job_of(row: Any) -> Job:
    """Return the job of a row of `JOBS`."""
    fields = row._asdict()
    worker, claim = fields.pop("worker"), fields.pop("claim")
    running = fields["state"] == "running"
    return Job(**fields, token=(worker, claim) if running else None)


class Cleaner:
    """Empties the database between examples, past triggers and rules, and looks at it without any lock.

    Raises:
        LookupError: ``recount()`` no longer takes its locks in the words that are left out here.
    """

    def __init__(self, database_url: str) -> None:
        self.connection = psycopg.connect(database_url, autocommit=True, row_factory=namedtuple_row)
        self._tables = [row[0] for row in self.connection.execute(TABLES)]
        source: str = self.connection.execute("select pg_get_functiondef('tidegate.recount'::regproc)").fetchall()[0][0]
        for text in LOCKS:
            if text not in source:
                raise LookupError(f"recount no longer says {text!r}")
            source = source.replace(text, "")
        self.connection.execute(source.replace("tidegate.recount(", "public.recount("))
        self.connection.execute(QUICK_BACKOFF)
        self.connection.execute("set session_replication_role = replica")

    def clean(self) -> None:
        """Delete every row of the schema."""
        for table in self._tables:
            self.connection.execute(f"delete from {table}")  # noqa: S608

    def drift(self) -> list[Any]:
        """Compare every kept count with the truth: one statement sees each transaction whole or not at all."""
        return self.connection.execute("select * from public.recount()").fetchall()
