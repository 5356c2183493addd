"""The bare queue beside which we are measured: a `SKIP LOCKED` claim and a delete, and nothing else.

It is the strict one: prepared once, the limit a literal (with a parameter the planner plans each call anew), a generic
plan, an index equal to ours, the same durability, and the same columns of a job in the reply as ours has.
"""

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from bench.databases import ACTOR, QUEUE
from bench.processors import Stopwatch
from bench.samples import Timings

_CLAIM = """
with picked as materialized (
  select id from public.bare where queue = 'bench' and state = 'ready' and run_at <= now()
   order by priority desc, run_at, id limit SLOTS for update skip locked)
update public.bare j
   set state = 'running', worker = '2f6b9d5e-0000-4000-8000-000000000000', claim = $1, started_at = clock_timestamp(),
       attempt = attempt + 1
  from picked where j.id = picked.id
returning COLUMNS
"""

FULL = (
    "j.id, j.actor, j.attempt::int, j.max_attempts::int, j.limit_key, j.group_key, j.priority::int, j.run_at, "
    "j.created_at, j.expires_at, j.timeout, j.lost::int, j.bytes, j.headers, j.payload"
)
"""What ``tidegate.claim`` says of a job."""

NARROW = "j.id, j.actor, j.attempt, j.limit_key, j.timeout, j.payload::text"
"""What our worker asks of it."""

_PUT = "insert into public.bare(queue, actor, limit_key, group_key, payload) values ($1, $2, $3, $3, '{}')"

_DELETE = "delete from public.bare where id = any($1::bigint[]) and claim = $2"


class BareQueue:
    """Claims and deletes in batches of ``slots`` on one connection; `open` makes it."""

    def __init__(self, prepared: tuple[Any, Any, Any], watch: Stopwatch) -> None:
        self._claiming, self._deleting, self._putting = prepared
        self._watch = watch
        self._number = 0

    @classmethod
    async def open(cls, connection: Any, slots: int, columns: str = NARROW) -> "BareQueue":
        """Prepare its statements."""
        claiming = await connection.prepare(_CLAIM.replace("SLOTS", str(int(slots))).replace("COLUMNS", columns))
        prepared = claiming, await connection.prepare(_DELETE), await connection.prepare(_PUT)
        return cls(prepared, await Stopwatch.open(connection))

    async def claim(self) -> list[int]:
        """Start the next jobs and return their ids."""
        self._number += 1
        return [row[0] for row in await self._claiming.fetch(self._number)]

    async def finish(self, jobs: list[int]) -> None:
        """Delete the jobs of the last claim."""
        await self._deleting.fetch(jobs, self._number)

    async def put(self, keys: Sequence[str]) -> None:
        """Insert one job of each of these keys, one at a time."""
        for key in keys:
            await self._putting.fetch(QUEUE, ACTOR, key)

    async def sample(self, timings: Timings) -> None:
        """Time a claim, and it together with the delete of what it brought."""
        both: tuple[list[float], list[float]] = ([], [])
        self._watch.start()
        jobs = await self.claim()
        self._watch.lap((timings.claim, timings.claim_ran), both)
        await self.finish(jobs)
        self._watch.lap(both)
        timings.both.append(sum(both[0]))
        if both[1]:
            timings.both_ran.append(sum(both[1]))

    async def turn(self, keys: Sequence[str]) -> tuple[float, float]:
        """Insert, claim and delete; return the seconds of the inserts and of the rest."""
        start = perf_counter()
        await self.put(keys)
        put = perf_counter()
        await self.finish(await self.claim())
        return put - start, perf_counter() - put
