"""The recorder and the judge on a real database: silent about correct functions, not blind to broken ones."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, TypeAlias
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.postgres.controls import (
    COUNT_WHILE_LOCKING,
    EARLIER_TIME,
    KEY_SKIPPED,
    LANE_SKIPPED,
    NO_TOKEN,
    TRANSACTION_TIME,
    Control,
    plant,
)
from tidegate.audit import EventKind, Invariant, Verdict, install, judge, read_history
from tidegate.audit.recorder import record_run
from tidegate.store.engine import Engine

LEASE = timedelta(seconds=1)

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Connect: TypeAlias = "Callable[[], Awaitable[Connection]]"

START = """
update tidegate.jobs set state = 'running', worker = $2, claim = 99, started_at = clock_timestamp() where id = $1"""
"""Past the claim, and past every rule."""


class Client:
    """One connection that plays one worker with the database's own functions."""

    def __init__(self, connection: Connection, worker: UUID) -> None:
        self.connection = connection
        self.worker = worker
        self._claims = 0

    async def put(self, key: str = "k", queue: str = "a", **more: Any) -> int:
        arguments = {"queue": queue, "actor": "act", "limit_key": key, **more}
        named = ", ".join(f"{name} => ${place}" for place, name in enumerate(arguments, 1))
        job: int = await self.connection.fetchval(f"select id from tidegate.enqueue({named})", *arguments.values())  # noqa: S608
        return job

    async def claim(
        self, slots: int = 1, queue: str = "a", done: Sequence[asyncpg.Record] = ()
    ) -> list[asyncpg.Record]:
        self._claims += 1
        rows = await self.connection.fetch(
            "select $2::bigint as claim, c.* from tidegate.claim($1, $2, $3, $4, '{act}', null, null, null, $5, $6) c",
            self.worker,
            self._claims,
            queue,
            slots,
            [row["id"] for row in done],
            [row["claim"] for row in done],
        )
        return [row for row in rows if row["id"] is not None]

    async def finish(self, how: str, rows: Sequence[asyncpg.Record]) -> list[int]:
        more = ", '{boom}', '{trace}'" if how == "nack" else ""
        stale = await self.connection.fetchval(
            f"select stale from tidegate.{how}($1, $2, $3{more})",  # noqa: S608
            self.worker,
            [row["id"] for row in rows],
            [row["claim"] for row in rows],
        )
        return stale or []

    async def limit(self, key: str = "k", **changes: int | None) -> None:
        await self.connection.execute("select tidegate.change_limit($1, $2)", key, _json(changes))

    async def age(self, by: timedelta = timedelta(hours=1)) -> None:
        """Make this worker look as if it had been silent for this long."""
        await self.connection.execute(
            "update tidegate.workers set seen_at = seen_at - $2::interval where id = $1", self.worker, by
        )


def _json(changes: dict[str, int | None]) -> str:
    return "{" + ", ".join(f'"{name}": {"null" if value is None else value}' for name, value in changes.items()) + "}"


@pytest.fixture
async def audited(engine: Engine) -> Engine:
    await install(engine)
    return engine


@pytest.fixture
def new_client(audited: Engine, connect: Connect) -> Callable[[str], Awaitable[Client]]:
    async def make(name: str) -> Client:
        client = Client(await connect(), uuid4())
        await client.connection.execute(
            "select tidegate.register_worker($1, $2, '{a,b}', '{act}', 10, false, $3, 'test', null, null)",
            client.worker,
            name,
            LEASE,
        )
        return client

    return make


@pytest.fixture
async def anna(new_client: Callable[[str], Awaitable[Client]]) -> Client:
    return await new_client("anna")


@pytest.fixture
async def bert(new_client: Callable[[str], Awaitable[Client]]) -> Client:
    return await new_client("bert")


async def decide(engine: Engine, *, recount: bool = True, drained: bool = False) -> Verdict:
    return judge(await read_history(engine, recount=recount), drained=drained)


def broken(verdict: Verdict) -> set[Invariant]:
    return {violation.invariant for violation in verdict.violations}


async def blocked(connection: Connection, pid: int) -> None:
    """Return as soon as the backend waits for a lock."""
    async with asyncio.timeout(30):
        while not await connection.fetchval("select cardinality(pg_blocking_pids($1)) > 0", pid):
            pass


async def test_everything_that_is_allowed_is_silent(audited: Engine, anna: Client, bert: Client) -> None:
    await anna.limit(max_running=2, max_starts=50, window_ms=60_000)
    for number in range(6):
        await anna.put(job_key=f"item-{number}", max_attempts=1 if number == 1 else 5)
    await anna.put(key="")
    later = await anna.put(queue="b", delay=timedelta(hours=1))
    rows = await anna.claim(4)
    rows.sort(key=lambda row: -len(row["limit_key"]))
    assert [row["limit_key"] for row in rows] == ["k", "k", ""]
    assert await bert.claim(4) == []
    await anna.limit(max_running=1)
    await anna.finish("ack", rows[2:])
    more = await anna.claim(4, done=rows[:1])
    assert more == [], "one of two still runs, and the cap is one"
    await anna.limit(max_running=3)
    more = await bert.claim(2)
    assert len(more) == 2
    await bert.finish("release", more[:1])
    await bert.finish("nack", more[1:])
    await anna.finish("nack", rows[1:2])
    await anna.connection.fetchval("select tidegate.cancel($1)", later)
    taken = await bert.claim(9)
    await bert.age()
    await anna.connection.execute(
        "update tidegate.workers set contact_since = contact_since - interval '1 h' where id = $1", anna.worker
    )
    rescued = 0
    while not rescued:
        # not within one lease of the server's start, and only by a worker that was heard within its own
        await anna.connection.fetch("select tidegate.heartbeat($1, '{}', '{}', 99, true)", anna.worker)
        rescued = await anna.connection.fetchval("select sum(jobs) from tidegate.rescue($1)", anna.worker) or 0
    assert rescued == len(taken) > 0
    assert await bert.finish("ack", taken) == [row["id"] for row in taken], "stale"
    await anna.limit(max_running=None, max_starts=None)
    await anna.connection.execute("select tidegate.retry(id) from tidegate.jobs where state = 'scheduled'")
    while left := await anna.claim(9):
        await anna.finish("ack", left)
    history = await read_history(audited, recount=True)
    verdict = judge(history, drained=True)
    assert not verdict.violations, str(verdict)
    assert history.jobs == []
    kinds = {event.kind for event in history.events}
    expected = {
        "enqueued",
        "started",
        "succeeded",
        "failed",
        "released",
        "rescued",
        "dead",
        "cancelled",
        "policy",
        "worker",
    }
    assert expected <= kinds


async def test_what_was_rolled_back_is_not_in_the_history(audited: Engine, anna: Client) -> None:
    transaction = anna.connection.transaction()
    await transaction.start()
    await anna.limit(max_running=1)
    await anna.put()
    await anna.claim()
    await transaction.rollback()
    assert {event.kind for event in (await read_history(audited)).events} == {EventKind.WORKER}


async def test_start_past_the_claim_into_a_full_key_is_reported(audited: Engine, anna: Client) -> None:
    await anna.limit(max_running=1)
    await anna.put()
    second = await anna.put()
    await anna.claim(5)
    await anna.connection.execute(
        START,
        second,
        anna.worker,
    )
    verdict = await decide(audited)
    assert {Invariant.RUNNING, Invariant.DRIFT} <= broken(verdict)
    assert "number 2 of at most 1" in str(verdict)


async def test_two_starts_that_cannot_see_each_other_are_reported(audited: Engine, anna: Client, bert: Client) -> None:
    """Neither takes the key's lock or has committed when the other starts: only the recorder brings them in order."""
    await anna.limit(max_running=1)
    jobs = [await anna.put(), await anna.put()]
    await anna.claim(0)
    mine, yours = anna.connection.transaction(), bert.connection.transaction()
    await mine.start()
    await yours.start()
    await anna.connection.execute(START, jobs[0], anna.worker)
    await bert.connection.execute(START, jobs[1], bert.worker)
    await anna.connection.execute("set constraints all immediate")
    commit = asyncio.ensure_future(yours.commit())
    await blocked(anna.connection, bert.connection.get_server_pid())
    assert not commit.done()
    await mine.commit()
    await commit
    assert Invariant.RUNNING in broken(await decide(audited))


async def test_claim_that_locks_and_counts_in_one_statement_is_reported(
    audited: Engine, anna: Client, bert: Client
) -> None:
    await plant(anna.connection, COUNT_WHILE_LOCKING)
    await anna.limit(max_running=1)
    await anna.put(queue="a")
    await anna.put(queue="b")
    transaction = anna.connection.transaction()
    await transaction.start()
    assert len(await anna.claim(queue="a")) == 1
    late = asyncio.ensure_future(bert.claim(queue="b"))
    await blocked(anna.connection, bert.connection.get_server_pid())
    await transaction.commit()
    assert len(await late) == 1, "it counted with the snapshot from before the lock"
    assert broken(await decide(audited, recount=False)) == {Invariant.RUNNING}


@pytest.mark.parametrize("control", [TRANSACTION_TIME, EARLIER_TIME], ids=lambda control: control.name)
async def test_start_marks_by_another_clock_are_reported(audited: Engine, anna: Client, control: Control) -> None:
    await plant(anna.connection, control)
    await anna.limit(max_starts=1, window_ms=60_000)
    await anna.put()
    await anna.claim()
    verdict = await decide(audited)
    assert broken(verdict) <= {Invariant.STARTS, Invariant.EARLY}
    assert "before its transaction began" in str(verdict)


async def test_starts_above_the_rate_are_reported(audited: Engine, anna: Client) -> None:
    await anna.limit(max_starts=2, window_ms=60_000)
    for _ in range(3):
        await anna.put()
    assert len(await anna.claim(5)) == 2
    await anna.connection.execute("delete from tidegate.limit_starts")
    await anna.connection.execute("update tidegate.keys set starts = 0")
    await anna.put()
    await anna.connection.execute("select tidegate.change_limit('k', '{\"max_running\": 9}')")
    assert len(await anna.claim(5)) == 2
    verdict = await decide(audited)
    assert broken(verdict) == {Invariant.STARTS}
    assert "start 4 of 2" in str(verdict)


async def give_to_bert(anna: Client, bert: Client) -> list[asyncpg.Record]:
    """Let both have held the same job, bert last; return what anna still believes to hold."""
    await anna.put(job_key="item")
    mine = await anna.claim()
    await anna.finish("release", mine)
    assert len(await bert.claim()) == 1
    return mine


async def test_stale_outcome_with_the_next_claim_is_reported(audited: Engine, anna: Client, bert: Client) -> None:
    mine = await give_to_bert(anna, bert)
    await plant(anna.connection, NO_TOKEN)
    await anna.put()
    assert len(await anna.claim(done=mine)) == 1
    verdict = await decide(audited, recount=False)
    assert broken(verdict) == {Invariant.TOKEN}
    assert "in a transaction of worker" in str(verdict)


async def test_stale_outcome_on_its_own_is_reported_where_runs_are_recorded(
    audited: Engine, anna: Client, bert: Client
) -> None:
    mine = await give_to_bert(anna, bert)
    await record_run(audited, "item", "anna")
    assert await anna.finish("ack", mine) != [], "the real one refuses it"
    await plant(anna.connection, NO_TOKEN)
    await anna.finish("ack", mine)
    verdict = await decide(audited, recount=False)
    assert broken(verdict) == {Invariant.TOKEN}
    assert "under the token of bert" in str(verdict)


async def test_rescue_of_a_worker_that_was_just_heard_is_reported(audited: Engine, anna: Client) -> None:
    await anna.put()
    await anna.claim()
    await anna.connection.execute("select tidegate.retire_worker($1, 1)", anna.worker)
    assert broken(await decide(audited, recount=False)) == {Invariant.FALSE_RESCUE}


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        ("update tidegate.jobs set run_at = run_at + interval '1 h'", "before its run_at"),
        ("update tidegate.jobs set expires_at = clock_timestamp()", "after it expired"),
        ("update tidegate.queues set suspended = true", "suspended queue"),
        ("update tidegate.queues set held_by_hand = true", "suspended queue"),
        ("update tidegate.workers set alive = false", "not alive"),
        ("update tidegate.workers set draining_at = clock_timestamp()", "draining"),
    ],
)
async def test_start_that_was_not_allowed_is_reported(audited: Engine, anna: Client, plant: str, words: str) -> None:
    job = await anna.put()
    await anna.claim(0)
    await anna.connection.execute(plant)
    await anna.connection.execute(
        START,
        job,
        anna.worker,
    )
    verdict = await decide(audited, recount=False)
    assert broken(verdict) == {Invariant.EARLY}
    assert words in str(verdict)


async def test_lane_that_was_not_updated_is_reported(audited: Engine, anna: Client) -> None:
    await anna.put()
    await anna.put()
    await anna.claim()
    assert not broken(await decide(audited))
    await plant(anna.connection, LANE_SKIPPED)
    await anna.claim()
    assert broken(await decide(audited)) == {Invariant.DRIFT}


async def test_key_that_was_not_updated_is_reported(audited: Engine, anna: Client) -> None:
    await plant(anna.connection, KEY_SKIPPED)
    await anna.limit(max_running=1)
    await anna.put()
    await anna.put()
    assert len(await anna.claim() + await anna.claim()) == 2
    assert broken(await decide(audited)) == {Invariant.DRIFT, Invariant.RUNNING}


async def test_job_that_vanished_is_reported(audited: Engine, anna: Client) -> None:
    job = await anna.put()
    await anna.connection.execute("delete from tidegate.jobs where id = $1", job)
    assert broken(await decide(audited)) == {Invariant.LOST}


async def test_forged_events_and_gaps_void_the_history(audited: Engine, anna: Client) -> None:
    job = await anna.put()
    forged = "insert into tidegate_audit.events(kind, job, key, worker) values ('started', $1, 'k', $2)"
    await anna.connection.execute(forged, job, anna.worker)
    assert broken(await decide(audited)) == {Invariant.AUDIT}
    await install(audited)
    assert not broken(await decide(audited)), "a new history, with the waiting job in it"
    await anna.connection.execute("alter table tidegate.jobs disable trigger tidegate_audit_start")
    await anna.claim()
    assert broken(await decide(audited)) == {Invariant.AUDIT}


async def test_recorder_installed_late_knows_policies_and_waiting_jobs(audited: Engine, anna: Client) -> None:
    await anna.limit(max_running=1, max_starts=5, window_ms=1_000)
    await anna.put()
    await install(audited)
    assert len(await anna.claim()) == 1
    assert not broken(await decide(audited))
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="a job is running"):
        await install(audited)
    assert not broken(await decide(audited)), "the history is still there"


async def test_queue_that_keeps_no_history_loses_nothing(audited: Engine, anna: Client) -> None:
    await anna.put()
    await anna.claim(0)
    await anna.connection.execute("update tidegate.queues set keep_succeeded = '0'")
    await anna.finish("ack", await anna.claim())
    assert not broken(await decide(audited, drained=True))
