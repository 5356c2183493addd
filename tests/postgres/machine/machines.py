"""The machine: three workers on three connections, transactions that stay open, and the model beside them.

Whatever one connection does is compared with the model at once, job by job, as its own transaction sees it. With no
other transaction open, a claim must start exactly the jobs that the model decides, and its hint must be early enough
for the next one. Beside open transactions of others a claim may pass over what is busy, so permission alone is judged.
After each step every count that the database keeps agrees with the jobs; at the end of an example everything drains.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.postgres.machine.beliefs import Beliefs
from tests.postgres.machine.clients import FOR_LONG, SILENT, Cleaner, Client
from tests.postgres.machine.models import Ask, Job, Limit, Queue

WHO = st.integers(0, 2)
PLACE = st.integers(0, 19)
PLACES = st.sets(st.integers(0, 7), max_size=4)
QUEUES = st.sampled_from("aaab")
ACTORS = st.sampled_from("xxxy")
ORDERS = st.sampled_from(["priority", "fair"])
KEYS = st.sampled_from(["", "k", "k", "m", "m"])
LIMITED = st.sampled_from(["k", "k", "m", "g"])
GROUPS = st.sampled_from([None, None, "g", "k", "m"])
JOBS = st.fixed_dictionaries(
    {
        "queue": QUEUES,
        "limit_key": KEYS,
        "group_key": GROUPS,
        "actor": ACTORS,
        "priority": st.sampled_from([0, 0, 0, 0, 0, 0, 1, -1]),
        "payload": st.sampled_from([{}, {}, {"filler": "x" * 20}, {"filler": "x" * 90}]),
    }
)
PILES = st.tuples(JOBS, st.integers(1, 6))
TERMS = st.fixed_dictionaries(
    {
        "delay": st.sampled_from([None, None, None, 0.003, 0.006, 3600]),
        "lives": st.sampled_from([None, None, None, None, 0.004, 3600]),
        "max_attempts": st.sampled_from([5, 1]),
    }
)
ASKS = st.builds(
    Ask,
    queue=QUEUES,
    slots=st.integers(1, 5),
    rooms=st.dictionaries(ACTORS, st.integers(1, 5), min_size=1),
    budget=st.sampled_from([None, 20, 50, 100, 200]),
    fair=st.sampled_from([None, None, None, True, False]),
)
POLICIES = st.sampled_from(
    [
        *({"max_running": most} for most in (None, 0, 1, 1, 2, 3)),
        *({"weight": weight} for weight in (None, 2, 2, 3, 10)),
        {"max_starts": 1, "window_ms": 100},
        {"max_starts": 2, "window_ms": 150},
        {"max_starts": 3, "window_ms": 3_600_000},
        {"max_starts": None},
    ]
)
SETTINGS = st.sampled_from(
    [{"order": "fair"}, {"order": "fair"}, {"order": "priority"}, {"suspended": True}, *[{"suspended": False}] * 3]
)


class ClaimMachine(RuleBasedStateMachine):
    """See the module. Connections are kept from example to example.

    Args:
        clients: one for each worker.
        cleaner: of their database.
    """

    def __init__(self, clients: Sequence[Client], cleaner: Cleaner) -> None:
        super().__init__()
        self.clients = clients
        self.cleaner = cleaner
        self.beliefs = Beliefs(list(clients))

    @initialize(
        piles=st.lists(PILES, min_size=3, max_size=7),
        policies=st.lists(st.tuples(LIMITED, POLICIES), min_size=1, max_size=4),
        orders=st.tuples(ORDERS, ORDERS),
    )
    def begin_example(
        self,
        piles: list[tuple[dict[str, Any], int]],
        policies: list[tuple[str, dict[str, int | None]]],
        orders: tuple[str, str],
    ) -> None:
        """Put jobs, limits and orders there to begin with."""
        for client in self.clients:
            # the example before may have failed in the middle
            client.rollback()
        self.cleaner.clean()
        self.beliefs.state.queues.update(a=Queue(), b=Queue())
        for client in self.clients:
            client.worker = ""
            client.wakes.clear()
            self.beliefs.hire(client)
        for queue, order in zip("ab", orders, strict=True):
            self.set_queue(self.clients[0], queue, {"order": order})
        for key, policy in policies:
            self.set_limit(self.clients[0], key, policy)
        for job, n in piles:
            self.put(self.clients[0], [job] * n)

    @invariant()
    def every_count_is_true(self) -> None:
        drift = self.cleaner.drift()
        assert not drift, drift

    # transactions

    @rule(who=WHO)
    def begin(self, who: int) -> None:
        if self.clients[who].changes is None:
            self.clients[who].begin()

    @rule(who=WHO, commits=st.sampled_from([True, True, False]))
    def end(self, who: int, commits: bool) -> None:
        client = self.clients[who]
        if client.changes is None:
            return
        if commits:
            self.beliefs.state = client.commit().over(self.beliefs.state)
        else:
            client.rollback()
        for each in self.clients:
            if each.changes is None:
                self.beliefs.hire(each)
        client.wake()

    # jobs come

    @rule(who=WHO, piles=st.lists(PILES, min_size=1, max_size=2), terms=TERMS)
    def enqueue(self, who: int, piles: list[tuple[dict[str, Any], int]], terms: dict[str, Any]) -> None:
        client = self.clients[who]
        lives = terms["lives"]
        more = {
            "delay": terms["delay"],
            "expires_at": lives and (client.now() + timedelta(seconds=lives)).isoformat(),
            "max_attempts": terms["max_attempts"],
        }
        self.put(client, [{**job, **more} for job, n in piles for _ in range(n)])

    @rule(who=WHO, pile=PILES, delay=st.sampled_from([0.002, 0.004, 3600]))
    def enqueue_for_later(self, who: int, pile: tuple[dict[str, Any], int], delay: float) -> None:
        job, n = pile
        self.put(self.clients[who], [{**job, "delay": delay}] * n)

    def put(self, client: Client, jobs: Sequence[dict[str, Any]]) -> None:
        seen_before = set(client.jobs())
        ids = client.put(jobs)
        seen = client.jobs()
        assert set(seen) == seen_before | set(ids)
        for job_id, wanted in zip(ids, jobs, strict=True):
            job = seen[job_id]
            assert [job.queue, job.actor, job.key, job.priority] == [
                wanted[name] for name in ("queue", "actor", "limit_key", "priority")
            ]
            assert job.group == (job.key if wanted["group_key"] is None else wanted["group_key"])
            assert (job.state, job.attempt, job.token) == ("scheduled" if wanted.get("delay") else "ready", 0, None)
        self.beliefs.agree(client, {job_id: seen[job_id] for job_id in ids})

    # jobs start

    @rule(who=WHO, ask=ASKS)
    def claim(self, who: int, ask: Ask) -> None:
        client = self.clients[who]
        self.beliefs.attempt(client, lambda: self.beliefs.claim(client, ask, []))

    @rule(who=WHO, queue=QUEUES, slots=st.integers(0, 4), done=PLACES)
    def hand_in(self, who: int, queue: str, slots: int, done: set[int]) -> None:
        """As a worker works: what is done, and what is next."""
        client = self.clients[who]
        ask = Ask(queue=queue, slots=slots, rooms={"x": slots, "y": slots})
        finished = self.some_running(client, done)
        self.beliefs.attempt(client, lambda: self.beliefs.claim(client, ask, finished))

    @rule(who=WHO, queue=QUEUES, actors=st.sampled_from(["x", "xy", "yx"]))
    def claim_one(self, who: int, queue: str, actors: str) -> None:
        """As slots free one at a time."""
        client = self.clients[who]
        ask = Ask(queue=queue, slots=1, rooms=dict.fromkeys(actors, 1))
        self.beliefs.attempt(client, lambda: self.beliefs.claim(client, ask, []))

    # jobs end

    @rule(who=WHO, places=PLACES, how=st.sampled_from(["ack", "ack", "nack", "dead", "release", "later"]))
    def finish(self, who: int, places: set[int], how: str) -> None:
        client = self.clients[who]
        jobs = self.some_running(client, places)
        if jobs:
            self.beliefs.attempt(client, lambda: self.hand_over(client, how, jobs))

    def hand_over(self, client: Client, how: str, jobs: Sequence[Job]) -> None:
        tokens = [(job.id, job.token[1]) for job in jobs if job.token]
        errors = ["broke"] * len(jobs)
        if how in {"nack", "dead"}:
            stale = client.outcome("nack", tokens, errors, errors, how == "nack")
        elif how == "later":
            stale = client.outcome("release", tokens, timedelta(hours=1))
        else:
            stale = client.outcome(how, tokens)
        assert stale == []
        self.gone(client, how, jobs)

    def gone(self, client: Client, how: str, jobs: Sequence[Job]) -> None:
        """Compare with what becomes of running jobs; an instant that chance decides is taken from the database."""
        seen = client.jobs()
        self.beliefs.agree(client, {job.id: _after(job, how, seen.get(job.id)) for job in jobs})

    @rule(who=WHO, place=PLACE, what=st.sampled_from(["cancel", "run now", "delete by hand"]))
    def meddle(self, who: int, place: int, what: str) -> None:
        client = self.clients[who]
        jobs = [job for job in self.beliefs.view(client).jobs.values() if job.state != "over"]
        if not jobs:
            return
        job = sorted(jobs, key=lambda job: job.id)[place % len(jobs)]
        steps = {"cancel": self.cancel, "run now": self.run_now, "delete by hand": self.delete_by_hand}
        self.beliefs.attempt(client, lambda: steps[what](client, job))

    def cancel(self, client: Client, job: Job) -> None:
        running = job.state == "running"
        said = client.fetch("select tidegate.cancel(%s)", job.id)[0][0]
        assert said == ("cancelling" if running else "cancelled")
        self.beliefs.agree(client, {job.id: replace(job, cancelled=True) if running else replace(job, state="over")})

    def run_now(self, client: Client, job: Job) -> None:
        if job.state == "scheduled":
            assert client.fetch("select tidegate.retry(%s)", job.id)[0][0] == "ready"
            self.beliefs.agree(client, {job.id: replace(job, state="ready", run_at=client.jobs()[job.id].run_at)})

    def delete_by_hand(self, client: Client, job: Job) -> None:
        client.fetch("delete from tidegate.jobs where id = %s", job.id)
        self.beliefs.unswept = True
        self.beliefs.agree(client, {job.id: replace(job, state="over", token=None)})

    @rule(who=WHO, other=WHO, place=PLACE, number=st.integers(0, 2), how=st.sampled_from(["ack", "release", "nack"]))
    def bring_a_stale_outcome(self, who: int, other: int, place: int, number: int, how: str) -> None:
        """An outcome under a token that does not hold the job changes nothing, whoever sends it."""
        client, worker = self.clients[who], self.clients[other].worker
        jobs = sorted(self.beliefs.view(client).jobs.values(), key=lambda job: job.id)
        if not jobs:
            return
        job = jobs[place % len(jobs)]
        claim = job.token[1] if job.token and number == 0 else number
        if job.token == (worker, claim):
            return

        def send() -> None:
            more = (["late"], ["late"]) if how == "nack" else ()
            assert client.outcome(how, [(job.id, claim)], *more, worker=worker) == [job.id]
            self.beliefs.agree(client, {})

        self.beliefs.attempt(client, send)

    # rules change

    @rule(who=WHO, key=LIMITED, policy=POLICIES | st.none())
    def govern(self, who: int, key: str, policy: dict[str, int | None] | None) -> None:
        client = self.clients[who]
        if policy is None:
            self.beliefs.attempt(client, lambda: self.clear_limit(client, key))
        else:
            self.beliefs.attempt(client, lambda: self.set_limit(client, key, policy))

    def set_limit(self, client: Client, key: str, changes: dict[str, int | None]) -> None:
        old = self.beliefs.view(client).limit(key)
        now = client.now()
        new = client.change_limit(key, changes)
        assert new == _changed(old, changes, new.marks)
        # what the old window let go may be gone or not; the other marks are all there
        kept = set(old.counted(now)) if new.max_starts is not None else set()
        assert kept <= set(new.marks) <= set(old.marks)
        self.beliefs.change(client, limits={key: new})

    def clear_limit(self, client: Client, key: str) -> None:
        had = replace(self.beliefs.view(client).limit(key), marks=()) != Limit()
        assert client.fetch("select tidegate.clear_limit(%s)", key)[0][0] is had
        if had:
            self.beliefs.change(client, limits={key: Limit()})

    @rule(who=WHO, queue=QUEUES, changes=SETTINGS)
    def govern_queue(self, who: int, queue: str, changes: dict[str, str | bool]) -> None:
        client = self.clients[who]
        self.beliefs.attempt(client, lambda: self.set_queue(client, queue, changes))

    def set_queue(self, client: Client, queue: str, changes: dict[str, str | bool]) -> None:
        new = client.set_queue(queue, changes)
        assert new == replace(self.beliefs.view(client).queues[queue], **changes)  # type: ignore[arg-type]
        self.beliefs.change(client, queues={queue: new})

    # workers come and go

    @rule(who=WHO, other=WHO, what=st.sampled_from(["rescue", "rescue", "leave", "drain"]))
    def staff(self, who: int, other: int, what: str) -> None:
        client = self.clients[who]
        if self.beliefs.view(client).workers[client.worker] == "gone":
            return
        silent = self.clients[other].worker
        steps = {"rescue": lambda: self.rescue(client, silent), "leave": lambda: self.leave(client)}
        self.beliefs.attempt(client, steps.get(what, lambda: self.drain(client)))

    def rescue(self, client: Client, silent: str) -> None:
        """A worker falls silent, and another one takes what it ran, unless a transaction holds its row."""
        if client.worker == silent or self.beliefs.view(client).workers.get(silent, "gone") == "gone":
            return
        client.hear(silent, SILENT)
        rows = client.fetch("select worker::text, jobs, wake from tidegate.rescue(%s::uuid)", client.worker)
        if not rows:
            assert self.beliefs.others(client), "nobody holds the row of the silent worker"
            client.hear(silent, FOR_LONG)
            return
        assert [row.worker for row in rows] == [silent]
        client.note_busy(rows[0].wake)
        self.retired(client, silent, "lost")

    def leave(self, client: Client) -> None:
        client.note_busy(client.fetch("select * from tidegate.leave(%s::uuid)", client.worker)[0].wake)
        self.retired(client, client.worker, "release")

    def drain(self, client: Client) -> None:
        assert client.fetch("select tidegate.drain_worker(%s::uuid)", client.worker)[0][0]
        self.beliefs.change(client, workers={client.worker: "draining"})

    def retired(self, client: Client, worker: str, how: str) -> None:
        self.gone(client, how, self.beliefs.running_of(client, worker))
        self.beliefs.change(client, workers={worker: "gone"})

    @rule(who=WHO, lost=PLACES)
    def beat(self, who: int, lost: set[int]) -> None:
        """A heartbeat that does not know of some jobs: their claims never reached the worker, they go back unspent."""
        client = self.clients[who]
        state = self.beliefs.view(client).workers[client.worker]
        if state == "gone":
            return
        unknown = self.some_running(client, lost)
        held = [job for job in self.beliefs.running_of(client, client.worker) if job not in unknown]

        def send() -> None:
            row = client.fetch(
                "select * from tidegate.heartbeat(%s::uuid, %s::bigint[], %s::bigint[], 1000000, true)",
                client.worker,
                [job.id for job in held],
                [job.token[1] for job in held if job.token],
            )[0]
            client.hear(client.worker, FOR_LONG)
            assert (row.alive, row.draining, row.missing) == (True, state == "draining", None)
            assert sorted(row.cancelled or ()) == [job.id for job in held if job.cancelled]
            assert row.returned == len(unknown)
            self.beliefs.unswept = True
            self.gone(client, "release", unknown)

        self.beliefs.attempt(client, send)

    # what keeps house

    @rule(who=WHO)
    def maintain(self, who: int) -> None:
        client = self.clients[who]
        if any(each.changes is not None for each in self.clients):
            return
        # ten minutes have passed, and nothing changed in them
        client.fetch("update tidegate.queues set swept_at = '-infinity', swept = pg_current_xact_id()")
        client.fetch("call tidegate.maintain(%s::uuid)", client.worker)
        now = client.now()
        seen = client.jobs()
        changed: dict[int, Job] = {}
        for job in self.beliefs.state.jobs.values():
            if job.id not in seen and job.state in {"ready", "scheduled"} and job.expired(now):
                changed[job.id] = replace(job, state="over")
            elif job.state == "scheduled" and job.run_at <= now and job.id in seen and seen[job.id].state == "ready":
                changed[job.id] = replace(job, state="ready")
        self.beliefs.agree(client, changed)

    def some_running(self, client: Client, places: set[int]) -> list[Job]:
        mine = self.beliefs.running_of(client, client.worker)
        return [job for place, job in enumerate(mine) if place in places]

    def teardown(self) -> None:
        """Nothing holds any job back any more: everything ends. An example that failed has said enough."""
        if sys.exception() is not None or not self.beliefs.state.queues:
            return
        for client in self.clients:
            if client.changes is not None:
                client.rollback()
        client = self.clients[0]
        if self.beliefs.state.workers[client.worker] != "alive":
            client.register()
            self.beliefs.state.workers[client.worker] = "alive"
        for key in [*self.beliefs.state.limits]:
            self.clear_limit(client, key)
        for queue in "ab":
            self.set_queue(client, queue, {"suspended": False})
            while self.may_start(queue) or self.beliefs.running_of(client, client.worker):
                self.hand_over(client, "ack", self.beliefs.running_of(client, client.worker))
                self.beliefs.claim(client, Ask(queue=queue, slots=40, rooms={"x": 40, "y": 40}), [])

    def may_start(self, queue: str) -> bool:
        now = self.clients[0].now()
        jobs = [job for job in self.beliefs.state.jobs.values() if job.queue == queue]
        return any(job.state in {"ready", "scheduled"} and job.run_at <= now and not job.expired(now) for job in jobs)


def _changed(old: Limit, changes: dict[str, int | None], marks: tuple[datetime, ...]) -> Limit:
    """Return the policy after these changes; a limit of starts takes its window with it."""
    parts: dict[str, Any] = {name: value for name, value in changes.items() if name != "window_ms"}
    if "window_ms" in changes:
        parts["window"] = timedelta(milliseconds=changes["window_ms"] or 0)
    new = replace(old, marks=marks, **parts)
    return new if new.max_starts is not None else replace(new, window=None)


def _after(job: Job, how: str, seen: Job | None) -> Job:
    """Return what becomes of a running job; `seen` tells an instant that chance decided."""
    lost = job.lost + (how == "lost")
    used_up = how == "nack" and job.attempt >= job.max_attempts
    if job.cancelled or how in {"ack", "dead"} or used_up or lost >= 5:
        return replace(job, state="over", token=None)
    later = how in {"nack", "later"}
    return replace(
        job,
        state="scheduled" if later else "ready",
        run_at=seen.run_at if later and seen else job.run_at,
        attempt=job.attempt if how == "nack" else job.attempt - 1,
        lost=lost,
        token=None,
    )
