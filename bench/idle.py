"""What an idle worker costs, and how soon it starts what is enqueued."""

import asyncio
import random
from time import monotonic

from bench.databases import ACTOR, QUEUE, connection, database
from bench.forms import Form
from bench.rows import Row
from bench.samples import percentile
from bench.workers import result_of, start_child, until_ready

_ENQUEUE = "select * from tidegate.enqueue($1, $2, jsonb_build_object('sent_at', $3::float8))"


async def measure_idle(server_url: str, form: Form) -> list[Row]:
    """Return the rows of this module."""
    seconds, samples = form.pick(5, 15, 15), form.pick(100, 400, 400)
    async with database(server_url) as url:
        child = await start_child(url, "idle", seconds)
        await until_ready(child)
        enqueues = await _send(url, samples)
        if child.stdin is not None:
            child.stdin.write(b"\n")
        idle = await result_of(child)
    waits = idle["waits"]
    rate = idle["statements"] / idle["seconds"]
    return [
        _latency(0.5, None, waits, enqueues),
        _latency(0.99, 20.0, waits, enqueues),
        Row(
            name="jobs not started",
            value=samples - len(waits),
            unit="jobs",
            bar=0,
            samples=samples,
            note="of those enqueued one at a time",
            timed=False,
        ),
        Row(
            name="statements a second of an idle worker, heartbeats apart",
            value=rate,
            unit="statements",
            bar=1.0,
            samples=idle["statements"],
            note=f"in {idle['seconds']:.0f} s; maintenance and rescue included",
            timed=False,
        ),
    ]


def _latency(share: float, bar: float | None, waits: list[float], enqueues: list[float]) -> Row:
    enqueue = percentile(enqueues, share) * 1e3
    return Row(
        name=f"enqueue to start on an idle worker, p{share * 100:.0f}",
        value=percentile(waits, share) * 1e3,
        unit="ms",
        bar=bar,
        samples=len(waits),
        note=f"from before the enqueue is sent, which alone takes {enqueue:.1f} ms; longest {max(waits) * 1e3:.1f} ms",
    )


async def _send(url: str, samples: int) -> list[float]:
    """Enqueue one job at a time; return how many seconds each enqueue took, its commit included."""
    took: list[float] = []
    async with connection(url) as connected:
        enqueue = await connected.prepare(_ENQUEUE)
        for _ in range(samples):
            # at any point of the worker's poll
            await asyncio.sleep(random.uniform(0.03, 0.09))  # noqa: S311
            sent_at = monotonic()
            await enqueue.fetch(QUEUE, ACTOR, sent_at)
            took.append(monotonic() - sent_at)
        await asyncio.sleep(1)
    return took
