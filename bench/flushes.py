"""Sixteen workers on one queue, a flush of two milliseconds: inside the queue's lock, and after it.

Bar: with the lock released before the flush, at least 3 x the rate of commits that flush while they hold it. Every
commit waits two milliseconds for others to join its flush (``commit_siblings=0, commit_delay=2000``), as a slow disk
would make it.
"""

import asyncio
from contextlib import AsyncExitStack
from statistics import median
from time import perf_counter

from bench.backlogs import Load, fill, hold_autovacuum, order_queue
from bench.claimants import Claimant
from bench.databases import connection, database
from bench.forms import Form
from bench.rows import Row
from tidegate.store.statements import statement

BAR = 3.0
WORKERS = 16
BATCH = 4
SLOW_FLUSH = {"commit_siblings": "0", "commit_delay": "2000", "synchronous_commit": "on"}


async def measure_flushes(server_url: str, form: Form) -> list[Row]:
    """Return the rows of this module."""
    seconds, rounds = form.pick(1.5, 5.0, 8.0), form.pick(2, 3, 5)
    inside: list[float] = []
    early: list[float] = []
    async with database(server_url) as url:
        async with connection(url, synchronous_commit="off") as connected:
            await order_queue(connected, "fair")
            await hold_autovacuum(connected)
            await fill(connected, Load(jobs=int(rounds * seconds * 10_000)))
        for index in range(rounds):
            sides = [("claim", inside), ("claim_early", early)]
            for claiming, rates in sides if index % 2 else reversed(sides):
                rates.append(await _rate(url, claiming, seconds))
    return [
        Row(
            name=f"jobs a second of {WORKERS} workers on one queue, batch {BATCH}, flush of 2 ms: lock released early",
            value=median(early) / median(inside),
            unit="ratio",
            bar=BAR,
            sense=">=",
            samples=rounds,
            note=(
                f"{median(early):,.0f} jobs/s beside {median(inside):,.0f} with the flush inside the lock; "
                f"{min(early):,.0f} to {max(early):,.0f} beside {min(inside):,.0f} to {max(inside):,.0f} "
                f"in rounds of {seconds:g} s"
            ),
        )
    ]


async def _rate(url: str, claiming: str, seconds: float) -> float:
    """Return the jobs a second that all workers together claim and finish."""
    async with AsyncExitStack() as stack:
        connections = [await stack.enter_async_context(connection(url, **SLOW_FLUSH)) for _ in range(WORKERS)]
        claimants = [await Claimant.open(each, BATCH, claiming=statement(claiming)) for each in connections]
        start = perf_counter()
        flushed = claiming == "claim_early"
        done = sum(await asyncio.gather(*(_work(each, start + seconds, flushed=flushed) for each in claimants)))
        took = perf_counter() - start
        for each in claimants:
            await each.put_away(each.held)
            await each.connection.execute("select * from tidegate.leave($1)", each.worker)
    return done / took


async def _work(claimant: Claimant, until: float, *, flushed: bool) -> int:
    """Claim and hand in; a claim that let go of the queue before its flush is followed by one, as our worker does."""
    flush = await claimant.connection.prepare(statement("flush"))
    done = 0
    while perf_counter() < until:
        await claimant.turn(())
        if flushed:
            await flush.fetch()
        done += BATCH
    return done
