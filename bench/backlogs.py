"""What waits: jobs of ours, with limits that bind or not, and a bare table with the same rows and an equal index."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from bench.databases import ACTOR, QUEUE

NOT_BINDING = 1_000_000

BATCH = 500_000
"""Jobs of one statement: the trigger keeps the new rows of a whole statement."""

KEYS_AT_ONCE = 1_000
"""New keys of one statement: each takes an advisory lock until its commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Jobs of one kind.

    Attributes:
        jobs: how many.
        keys: over how many limit keys they are spread, evenly; the keys are ``prefix`` and a number.
        groups: over how many groups, evenly; 0 makes each key its own group.
        cap: `max_running` of each key; None leaves the keys without a policy.
        marked: limit the starts in a window too, which costs a start mark a claim and key.
        keyless: the jobs name no limit key at all.
        age: how long ago the first of them was due; negative for jobs that are for later.
    """

    jobs: int
    keys: int = 1_000
    groups: int = 0
    prefix: str = "key-"
    cap: int | None = NOT_BINDING
    marked: bool = False
    keyless: bool = False
    actor: str = ACTOR
    queue: str = QUEUE
    age: timedelta = timedelta(hours=1)


_FILL = """
insert into tidegate.jobs(queue, actor, limit_key, group_key, payload, state, run_at)
select $1, $2, case when $6 then '' else $3 || g % $4 end,
       case when $5 = 0 then $3 || g % $4 else 'group-' || g % $5 end, '{}', $7, $8::timestamptz + g * interval '1 us'
  from generate_series($9::int, $10::int) g
"""

_LIMIT = """
select count(*) from generate_series($2::int, $3::int) g,
  lateral tidegate.change_limit($1 || g, jsonb_build_object('max_running', $4::int) || case when $5 then
    jsonb_build_object('max_starts', $4::int, 'window_ms', 1000) else '{}' end) changed
"""

_BARE = """
create table if not exists public.bare
  (like tidegate.jobs including identity including defaults including storage)
  with (fillfactor = 90);
alter table public.bare add primary key (id);
alter table public.bare alter bytes set default 2;
create index bare_ready on public.bare(queue, priority desc, run_at, id) where state = 'ready'
"""

# the same rows, so the same width; what we compute is plain data there
_FILL_BARE = "insert into public.bare overriding system value select * from tidegate.jobs"

_OURS = (
    "jobs",
    "lanes",
    "keys",
    "limit_starts",
    "lane_mail",
    "key_mail",
    "queues",
    "low_waters",
    "claims",
    "history",
    "gates",
)


async def fill(connection: Any, *loads: Load) -> None:
    """Limit the keys, enqueue the jobs, fold and vacuum."""
    for load in loads:
        if load.cap is not None and not load.keyless:
            for first in range(0, load.keys, KEYS_AT_ONCE):
                last = min(first + KEYS_AT_ONCE, load.keys) - 1
                await connection.fetchval(_LIMIT, load.prefix, first, last, load.cap, load.marked)
                # plans made for a table without rows would read all of it for each further key
                await connection.execute("discard plans")
        due = await connection.fetchval("select clock_timestamp() - $1::interval", load.age)
        state = "ready" if load.age > timedelta() else "scheduled"
        for first in range(1, load.jobs + 1, BATCH):
            last = min(first + BATCH - 1, load.jobs)
            names = (load.queue, load.actor, load.prefix, load.keys, load.groups, load.keyless)
            await connection.execute(_FILL, *names, state, due, first, last)
    for queue in sorted({load.queue for load in loads}):
        await fold(connection, queue)
    await vacuum(connection, analyze=True)


async def fill_bare(connection: Any) -> None:
    """Make the bare table with the jobs that wait on our side."""
    await connection.execute(_BARE)
    await connection.execute(_FILL_BARE)
    await connection.fetchval("select setval('public.bare_id_seq', (select max(id) from public.bare))")
    await vacuum(connection, analyze=True)


async def fold(connection: Any, queue: str = QUEUE) -> None:
    """Fold all mail of a queue, as maintenance does."""
    while await connection.fetchval("select tidegate.fold($1)", queue):
        pass


async def hold_autovacuum(connection: Any) -> None:
    """Leave vacuuming to the benchmark, which does it to both sides at the same instants."""
    for table in await _tables(connection):
        await connection.execute(f"alter table {table} set (autovacuum_enabled = off)")


async def order_queue(connection: Any, order: str, queue: str = QUEUE) -> None:
    """Declare the order of the queue, ``priority`` or ``fair``, and claim once, which decides how lanes are ranked."""
    await connection.execute("select tidegate.set_queue($1, jsonb_build_object('order', $2::text))", queue, order)
    worker = await register(connection, 1, queue=queue)
    await connection.execute("select tidegate.claim($1, 1, $2, 1, $3)", worker, queue, [ACTOR])
    # a worker that has the queue to itself commits once a claim, so nobody else may seem to serve it
    await connection.execute("select * from tidegate.leave($1)", worker)


async def vacuum(connection: Any, *, analyze: bool = False) -> None:
    """Vacuum both sides alike."""
    for table in await _tables(connection):
        await connection.execute(f"vacuum {'(analyze) ' if analyze else ''}{table}")


async def register(connection: Any, slots: int, *, queue: str = QUEUE, actors: Sequence[str] = (ACTOR,)) -> UUID:
    """Register a worker that lives for the length of any benchmark, and return its id."""
    worker = uuid4()
    await connection.fetchval(
        "select tidegate.register_worker($1, 'bench', $2, $3, $4, null, interval '1 day', '0')",
        worker,
        [queue],
        list(actors),
        slots,
    )
    return worker


async def _tables(connection: Any) -> list[str]:
    bare = ["public.bare"] if await connection.fetchval("select to_regclass('public.bare')") else []
    return [*bare, *(f"tidegate.{name}" for name in _OURS)]
