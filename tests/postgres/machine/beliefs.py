"""What the machine believes of the database, and how a claim is compared with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import psycopg

from tests.postgres.machine.clients import Blocked, Client, Started
from tests.postgres.machine.models import Ask, Job, State, decide

NEAR = timedelta(milliseconds=40)
"""An instant that comes within this time is waited for before a claim that must be exact."""

MAIL_OF_ONE_CLAIM = 64
"""A claim folds so many rows at least; behind more of them its order need not be exact."""

REPEATS = 20
"""So often a claim may say that it is behind."""


@dataclass(slots=True)
class Beliefs:
    """The committed state, and through each client's changes what its transaction sees.

    Attributes:
        clients: all connections that act.
        state: what is committed.
        unswept: something met a busy key and had no caller to wake it; maintenance sweeps it.
        exact: claims that were compared job by job, and with ``started`` how many jobs those started.
    """

    clients: list[Client]
    state: State = field(default_factory=State)
    unswept: bool = False
    exact: int = 0
    started: int = 0

    def view(self, client: Client) -> State:
        """Return what a client sees."""
        return client.changes.over(self.state) if client.changes is not None else self.state

    def change(self, client: Client, **changes: Mapping[Any, Any]) -> None:
        """Write what a client changed."""
        target = self.state if client.changes is None else client.changes
        for name, values in changes.items():
            getattr(target, name).update(values)

    def others(self, client: Client) -> list[Client]:
        """Return the other clients with an open transaction."""
        return [other for other in self.clients if other is not client and other.changes is not None]

    def agree(self, client: Client, expected: Mapping[int, Job]) -> None:
        """Compare all jobs that a client sees with what it must see after these changes, and believe it.

        Raises:
            AssertionError: they differ.
        """
        seen = client.jobs()
        wanted = {job.id: job for job in {**self.view(client).jobs, **expected}.values() if job.state != "over"}
        wrong = [
            f"is {seen.get(i)}, must be {wanted.get(i)}"
            for i in seen.keys() | wanted.keys()
            if seen.get(i) != wanted.get(i)
        ]
        assert not wrong, "\n".join(wrong)
        self.change(client, jobs=expected)

    def attempt(self, client: Client, step: Callable[[], None]) -> None:
        """Do something that may meet a lock of an open transaction, and of nothing else."""
        others = self.others(client)
        try:
            step()
        except Blocked:
            assert others, "it waited for a lock, and nobody holds one"
        except psycopg.errors.NoDataFound:
            assert self.view(client).workers[client.worker] == "gone", "a claim took its live worker for dead"
            if client.changes is not None:
                client.rollback()
        if client.changes is None:
            self.hire(client)
            client.wake()

    def hire(self, client: Client) -> None:
        """Let a client whose worker is gone, or done, be a new one."""
        state = self.state.workers.get(client.worker, "gone")
        if state == "draining" and not self.running_of(client, client.worker):
            client.note_busy(client.fetch("select * from tidegate.leave(%s::uuid)", client.worker)[0].wake)
            state = self.state.workers[client.worker] = "gone"
        if state == "gone":
            client.register()
            self.state.workers[client.worker] = "alive"

    def running_of(self, client: Client, worker: str) -> list[Job]:
        """Return the jobs that a worker runs, as a client sees it."""
        jobs = self.view(client).jobs.values()
        return sorted((job for job in jobs if job.token and job.token[0] == worker), key=_id)

    # claims

    def claim(self, client: Client, ask: Ask, finished: Sequence[Job]) -> None:
        """Claim and compare: permission always, order and completeness where nothing is under way."""
        settled = None if self.others(client) else self.settle(client, ask.queue)
        over = {job.id: replace(job, state="over", token=None) for job in finished}
        before = State(over).over(self.view(client))
        got = client.claim(ask, finished)
        assert got.stale == []
        ids, hint = (got.ids, got.hint) if settled is None else self._repeat(client, ask, got)
        ended = client.now()
        expected = over | self._started(client, before, ask, ids, ended)
        if settled is not None and ended < settled + NEAR:
            self.exact += 1
            self.started += len(ids)
            self._exactly(client, before, ask, ids, expected)
            self._hinted(client, State(expected).over(self.view(client)), ask, ids, hint=hint, now=ended)
        self.agree(client, expected)

    def settle(self, client: Client, queue: str) -> datetime | None:
        """Let nothing be under way or near; return the instant of that, or None where it cannot be."""
        for each in self.clients:
            if each.changes is None:
                each.wake()
        if client.later or any(each.wakes for each in self.clients):
            return None
        if self.unswept:
            client.fetch("select tidegate.sweep_keys(1000)")
            self.unswept = False
        if (
            client.fetch("select count(*) from tidegate.lane_mail where queue = %s", queue)[0][0]
            > MAIL_OF_ONE_CLAIM // 2
        ):
            return None
        while True:
            now = client.now()
            near = max((instant for instant in self._instants(client) if now < instant <= now + NEAR), default=None)
            if near is None:
                return now
            client.fetch("select pg_sleep(extract(epoch from %s - clock_timestamp()) + 0.001)", near)

    def _instants(self, client: Client) -> list[datetime]:
        view = self.view(client)
        jobs = [job for job in view.jobs.values() if job.state in {"ready", "scheduled"}]
        return [
            *(mark + limit.window for limit in view.limits.values() if limit.window for mark in limit.marks),
            *(job.run_at for job in jobs),
            *(job.expires_at for job in jobs if job.expires_at),
            *(row[0] for row in client.fetch("select recheck_at from tidegate.gates where recheck_at is not null")),
        ]

    def _repeat(self, client: Client, ask: Ask, got: Started) -> tuple[list[int], datetime | None]:
        """Claim again while the claim says that it is behind; return all that started and the last hint."""
        ids, hint = list(got.ids), got.hint
        for _ in range(REPEATS):
            left = ask.slots - len(ids)
            if left == 0 or hint is None or hint > client.now() or (ask.budget is not None and ids):
                return ids, hint
            jobs = client.jobs()
            used = Counter(jobs[job_id].actor for job_id in ids)
            rooms = {actor: room - used[actor] for actor, room in ask.rooms.items()}
            again = client.claim(replace(ask, slots=left, rooms=rooms))
            ids, hint = ids + again.ids, again.hint
        raise AssertionError(f"behind after {REPEATS} claims")

    def _exactly(self, client: Client, before: State, ask: Ask, ids: list[int], expected: Mapping[int, Job]) -> None:
        draining = before.workers[client.worker] != "alive"
        decided, promoted = ([], []) if draining else decide(before, ask, client.now())
        assert sorted(ids) == sorted(decided), f"{sorted(ids)} started, {decided} must: {ask}"
        ready = {job.id for job in expected.values() if job.state == "ready"}
        over = {job.id for job in expected.values() if job.state == "over"}
        assert ready == set(promoted) - over, f"{sorted(ready)} became ready, {promoted} must: {ask}"

    def _hinted(
        self, client: Client, after: State, ask: Ask, ids: Sequence[int], *, hint: datetime | None, now: datetime
    ) -> None:
        """A claim with slots left says when more may start, not later than that; and not at once when nothing may.

        It looks at no lane of an actor whose room it has used up.
        """
        if ask.budget is not None or len(ids) == ask.slots or after.workers[client.worker] != "alive":
            return
        if after.queues[ask.queue].suspended:
            return
        used = Counter(after.jobs[job_id].actor for job_id in ids)
        rooms = {actor: room for actor, room in ask.rooms.items() if used[actor] < room}
        first = next_start(after, replace(ask, rooms=rooms), now)
        assert first is None or (hint is not None and hint <= first), f"may start at {first}, hint {hint}: {ask}"
        mail = client.fetch("select count(*) from tidegate.lane_mail where queue = %s", ask.queue)[0][0]
        if not mail and rooms.keys() == ask.rooms.keys():
            row = client.fetch("select next_at from tidegate.probe(array[%s], %s)", ask.queue, list(ask.rooms))[0]
            assert row.next_at is None or row.next_at > now, "the probe asks for a claim that finds nothing"

    def _started(self, client: Client, before: State, ask: Ask, ids: list[int], ended: datetime) -> dict[int, Job]:
        """Check that each start was allowed; return the jobs that the claim changed."""
        seen = client.jobs()
        changed: dict[int, Job] = {}
        starts: dict[str, list[datetime]] = {}
        for row in client.fetch("select id, started_at, claim from tidegate.jobs where id = any(%s)", ids):
            old = before.jobs[row.id]
            assert old.state in {"ready", "scheduled"}, f"it started before: {old}"
            assert old.run_at <= row.started_at <= ended
            assert not old.expired(row.started_at)
            starts.setdefault(old.key, []).append(row.started_at)
            token = (client.worker, row.claim)
            changed[row.id] = replace(old, state="running", attempt=old.attempt + 1, token=token)
        assert not ids or not before.queues[ask.queue].suspended
        self._within(ask, [before.jobs[job_id] for job_id in ids])
        self._limited(client, before, starts)
        for job in before.jobs.values():
            if job.queue == ask.queue and job.id not in changed and job.state in {"ready", "scheduled"}:
                if job.id not in seen and job.expired(ended):
                    changed[job.id] = replace(job, state="over")
                elif job.state == "scheduled" and job.id in seen and seen[job.id].state == "ready":
                    assert job.run_at <= ended
                    changed[job.id] = replace(job, state="ready")
        return changed

    def _within(self, ask: Ask, jobs: Sequence[Job]) -> None:
        assert len(jobs) <= ask.slots
        used = Counter(job.actor for job in jobs)
        assert all(n <= ask.rooms.get(actor, 0) for actor, n in used.items()), f"{used} started: {ask}"
        total = sum(job.size for job in jobs)
        assert ask.budget is None or total <= ask.budget or len(jobs) == 1, f"{total} bytes started: {ask}"

    def _limited(self, client: Client, before: State, starts: Mapping[str, Sequence[datetime]]) -> None:
        running = before.running(lambda job: job.key)
        held = self._held_keys(client)
        for key, instants in starts.items():
            limit = before.limit(key)
            assert key not in held, f"key {key} is locked by an open transaction"
            if key and limit.max_running is not None:
                assert running[key] + len(instants) <= limit.max_running, f"{running[key]} + {len(instants)} of {key}"
            if key and limit.max_starts is not None:
                limit = replace(limit, marks=(*limit.marks, *instants))
                counted = limit.counted(max(instants))
                assert len(counted) <= (limit.max_starts or 0), f"{len(counted)} starts of {key} in its window"
                self.change(client, limits={key: limit})

    def _held_keys(self, client: Client) -> set[str]:
        """Return the keys whose rows the open transactions of others hold for certain: of policies and of starts."""
        held: set[str] = set()
        for other in self.others(client):
            changes = other.changes or State()
            held |= changes.limits.keys()
            for job in changes.jobs.values():
                before = self.state.jobs.get(job.id)
                if job.token and (before is None or before.token != job.token):
                    held.add(job.key)
        return held - {""}


def next_start(state: State, ask: Ask, now: datetime) -> datetime | None:
    """Return the first known instant at which a claim like this one may start something, without any event."""
    running = state.running(lambda job: job.key)
    instants = [job.run_at for job in state.jobs.values() if job.queue == ask.queue and job.state == "scheduled"]
    for key in {job.key for job in state.jobs.values() if _waits(job, ask, now)}:
        limit = state.limit(key)
        over = limit.max_running is not None and running[key] >= limit.max_running
        if limit.max_starts and limit.window and not over and limit.room(running[key], now) <= 0:
            # as many marks must leave the window as are too many for one more
            instants.append(limit.counted(now)[-limit.max_starts] + limit.window)
    return min(instants, default=None)


def _waits(job: Job, ask: Ask, now: datetime) -> bool:
    return job.queue == ask.queue and job.state == "ready" and job.actor in ask.rooms and not job.expired(now)


def _id(job: Job) -> int:
    return job.id
