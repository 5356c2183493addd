"""What an enqueue costs beside a bare insert of the same rows: 10,000 at once into 100 lanes, and by COPY.

Bars: ``enqueue_many`` of 10,000 at least 0.5 x the rate of a bare multi-row INSERT, COPY at least 0.5 x that of a bare
COPY. Ours has a trigger that checks the rows and appends the mail of their lanes, and more indexes.
"""

import json
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

from bench.backlogs import Load, fill, fill_bare, hold_autovacuum, order_queue
from bench.comparisons import interleave
from bench.databases import ACTOR, QUEUE, connection, database
from bench.forms import Form
from bench.rows import Row
from bench.samples import Timings, milliseconds, ratio, spread

BAR = 0.5
JOBS = 10_000
LANES = 100
COLUMNS = ("queue", "actor", "limit_key", "group_key", "payload")

_INSERT = """
insert into public.bare(queue, actor, limit_key, group_key, payload)
select $1, $2, k, k, p::jsonb from unnest($3::text[], $4::text[]) u(k, p)
"""


async def measure_enqueues(server_url: str, form: Form) -> list[Row]:
    """Return the rows of this module."""
    samples = form.pick(8, 24, 40)
    keys = [f"key-{number % LANES}" for number in range(JOBS)]
    payloads = [json.dumps({"number": number}) for number in range(JOBS)]
    records = [(QUEUE, ACTOR, key, key, payload) for key, payload in zip(keys, payloads, strict=True)]
    document = json.dumps(
        [
            {"queue": QUEUE, "actor": ACTOR, "limit_key": key, "payload": {"number": number}}
            for number, key in enumerate(keys)
        ]
    )
    async with database(server_url) as url, connection(url, synchronous_commit="off") as connected:
        await order_queue(connected, "fair")
        await fill(connected, Load(jobs=JOBS, keys=LANES))
        await fill_bare(connected)
        await hold_autovacuum(connected)
        many = await connected.prepare("select count(*) from tidegate.enqueue_many($1::jsonb)")
        copy = connected.copy_records_to_table
        insert = await connected.prepare(_INSERT)
        return [
            await _compared(
                connected,
                f"enqueue_many of {JOBS:,} beside a bare multi-row INSERT",
                lambda: many.fetch(document),
                lambda: insert.fetch(QUEUE, ACTOR, keys, payloads),
                samples,
            ),
            await _compared(
                connected,
                f"COPY of {JOBS:,} beside a bare COPY",
                lambda: copy("jobs", schema_name="tidegate", records=records, columns=COLUMNS),
                lambda: copy("bare", schema_name="public", records=records, columns=COLUMNS),
                samples,
            ),
        ]


async def _compared(
    connected: Any, name: str, ours: Callable[[], Awaitable[Any]], bare: Callable[[], Awaitable[Any]], samples: int
) -> Row:
    def timed(call: Callable[[], Awaitable[Any]]) -> Callable[[Timings], Awaitable[None]]:
        async def sample(timings: Timings) -> None:
            start = perf_counter()
            await call()
            timings.both.append(perf_counter() - start)

        return sample

    mine, theirs = await interleave([connected], [timed(ours), timed(bare)], samples)
    return Row(
        name=f"jobs a second: {name}",
        value=ratio(theirs.both, mine.both),
        unit="ratio",
        bar=BAR,
        sense=">=",
        samples=samples,
        note=(
            f"{milliseconds(mine.both):,.0f} ms beside {milliseconds(theirs.both):,.0f}; into {LANES} lanes; "
            f"{spread(theirs.both, mine.both, max(4, samples // 6))}"
        ),
    )
