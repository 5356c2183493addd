"""Our side of a comparison: one registered worker on one connection, which claims and hands in by hand."""

from collections.abc import Sequence
from time import perf_counter
from typing import Any
from uuid import UUID

from bench.backlogs import fold, register
from bench.databases import ACTOR, QUEUE
from bench.processors import Stopwatch
from bench.samples import Timings
from tidegate.store.statements import statement

SLOTS = 8

DOCUMENTED = "select * from tidegate.claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
"""The call for every language, with all that it says of a job."""

_PUT = "insert into tidegate.jobs(queue, actor, limit_key, group_key, payload) values ($1, $2, $3, $3, '{}')"
_ENQUEUE = "select * from tidegate.enqueue($1, $2, '{}', $3)"


class Claimant:
    """Claims ``slots`` jobs at a time; `open` makes it."""

    def __init__(
        self,
        connection: Any,
        prepared: tuple[Any, Any],
        worker: UUID,
        watch: Stopwatch,
        *,
        slots: int,
        queue: str,
        actors: Sequence[str],
        rooms: Sequence[int] | None,
    ) -> None:
        self.connection = connection
        self.worker = worker
        self._watch = watch
        self.slots = slots
        self.number = 0
        self.held: list[int] = []
        self._tokens: dict[int, int] = {}
        self._claiming, self._putting = prepared
        self._queue = queue
        self._actors = list(actors)
        self._rooms = list(rooms) if rooms else None

    @classmethod
    async def open(
        cls,
        connection: Any,
        slots: int = SLOTS,
        *,
        claiming: str = DOCUMENTED,
        enqueue: bool = False,
        queue: str = QUEUE,
        actors: Sequence[str] = (ACTOR,),
        rooms: Sequence[int] | None = None,
    ) -> "Claimant":
        """Register a worker and prepare its statements.

        Args:
            connection: in a session that plans once.
            slots: how many jobs a claim asks for.
            claiming: the documented call with all its columns, or a statement of our worker, which needs fewer.
            enqueue: put jobs through ``tidegate.enqueue``, as users do; else by a plain INSERT.
            queue: which one it serves.
            actors: what the worker can run.
            rooms: how many more jobs of each actor; None is ``slots`` of each.
        """
        worker = await register(connection, slots, queue=queue, actors=actors)
        prepared = await connection.prepare(claiming), await connection.prepare(_ENQUEUE if enqueue else _PUT)
        watch = await Stopwatch.open(connection)
        return cls(connection, prepared, worker, watch, slots=slots, queue=queue, actors=actors, rooms=rooms)

    async def claim(self, done: Sequence[int] = ()) -> list[int]:
        """Hand in jobs, and start the next ones; return their ids, fewer than ``slots`` at times."""
        self.number += 1
        rows = await self._claiming.fetch(
            *(self.worker, self.number, self._queue, self.slots, self._actors, self._rooms, None, None),
            *(list(done) or None, self._tokens_of(done) or None, None, None),
        )
        jobs = [row[0] for row in rows if row[0] is not None]
        self._tokens |= dict.fromkeys(jobs, self.number)
        return jobs

    async def put(self, keys: Sequence[str]) -> None:
        """Enqueue one job of each of these keys, one at a time."""
        for key in keys:
            await self._putting.fetch(self._queue, ACTOR, key)

    async def put_away(self, jobs: Sequence[int]) -> None:
        """Finish jobs outside of any sample, their mail folded."""
        tokens = self._tokens_of(jobs)
        await self.connection.fetch("select tidegate.ack($1, $2, $3)", self.worker, list(jobs), tokens)
        await fold(self.connection, self._queue)

    async def sample(self, timings: Timings) -> None:
        """Time a claim by itself and one that hands in as many as it takes; leave nothing running."""
        self._watch.start()
        jobs = self._all(await self.claim())
        self._watch.lap((timings.claim, timings.claim_ran))
        jobs = self._all(await self.claim(jobs))
        self._watch.lap((timings.both, timings.both_ran))
        await self.put_away(jobs)

    async def turn(self, keys: Sequence[str]) -> tuple[float, float]:
        """Enqueue, then claim and hand in the jobs of the turn before; return the seconds of both parts."""
        start = perf_counter()
        await self.put(keys)
        put = perf_counter()
        self.held = self._all(await self.claim(self.held))
        return put - start, perf_counter() - put

    async def beat(self) -> None:
        """Do what a worker's heartbeat and its maintenance do."""
        held, tokens = self.held, [self._tokens[job] for job in self.held]
        await self.connection.fetch(statement("heartbeat"), self.worker, held, tokens, self.number + 1, True)
        await self.connection.execute("call tidegate.maintain($1)", self.worker)

    def _tokens_of(self, done: Sequence[int]) -> list[int]:
        return [self._tokens.pop(job) for job in done]

    def _all(self, jobs: list[int]) -> list[int]:
        if len(jobs) != self.slots:
            raise RuntimeError(f"a claim of {self.slots} brought {len(jobs)} jobs although no limit binds")
        return jobs
