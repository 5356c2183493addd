"""The processes that benchmarks start: ``python -m bench.children KIND NUMBER NUMBER``.

The database is named by the environment. Each prints one JSON object as its last line. They run the product as users
do: an app, an actor, a worker.
"""

import asyncio
import json
import os
import resource
import sys
from collections import Counter
from contextlib import suppress
from time import monotonic, perf_counter, process_time
from typing import Unpack

from bench.bare import BareQueue
from bench.counting import counted_statements, without_heartbeats
from bench.databases import ACTOR, QUEUE, connection
from tidegate import ActorLimits, App, Channel, MessageLimits, Router, Worker
from tidegate.app import DATABASE_URL_VARIABLE, WorkerOptions

LINE = "line-"
"""What the names of numbered queues begin with."""

READY = "ready"
"""The line by which a child says that it can be used."""

ENOUGH = 1024 * 1024 * 1024
"""Bytes that no run here comes near."""

STAY = 0.5
"""Seconds that a large job stays, so that the budget is full while the others are fetched."""

IDLE_AFTER = 2.0
"""Seconds after which a worker without jobs has settled."""


async def run_bare(jobs: int, batch: int) -> dict[str, float]:
    """Claim and delete in a loop, and do nothing else."""
    async with connection(os.environ[DATABASE_URL_VARIABLE]) as connected:
        queue = await BareQueue.open(connected, batch)
        done = 0
        start = perf_counter()
        while done < jobs and (claimed := await queue.claim()):
            await queue.finish(claimed)
            done += len(claimed)
        return {"jobs": done, "seconds": perf_counter() - start}


async def run_worker(jobs: int, slots: int) -> dict[str, float]:
    """Run jobs that do nothing through one worker; the first batch is not counted, its claim was not timed."""
    return await _run_noops(App(), jobs, Channel(QUEUE), None, slots=slots, fair=True)


async def run_scoped(jobs: int, slots: int) -> dict[str, float]:
    """Do the same with limits at all four scopes, of which none but the slots ever binds."""
    router = Router(limits=ActorLimits(max_messages=1_000, max_payload_bytes=ENOUGH))
    channel = Channel(QUEUE, limits=MessageLimits(max_messages=1_000, max_payload_bytes=ENOUGH))
    limits = MessageLimits(max_messages=slots, max_payload_bytes=ENOUGH)
    return await _run_noops(App(), jobs, channel, router, limits=limits, fair=True)


async def _run_noops(
    app: App, jobs: int, channel: Channel, router: Router | None, **options: Unpack[WorkerOptions]
) -> dict[str, float]:
    started: list[float] = []
    enough = asyncio.Event()

    async def noop() -> None:
        if not started:
            started.extend((perf_counter(), process_time()))
        if worker.counts.succeeded >= jobs:
            enough.set()

    if router is None:
        app.actor(channel=channel, name=ACTOR)(noop)
    else:
        router.actor(channel=channel, name=ACTOR, limits=ActorLimits(max_messages=1_000, max_payload_bytes=ENOUGH))(
            noop
        )
        app.include_router(router)
    with counted_statements() as sent:
        worker = Worker(app, **options)
        running = asyncio.create_task(worker.run())
        await enough.wait()
        seconds, done, statements = perf_counter() - started[0], worker.counts.succeeded, sent.total()
        cpu = process_time() - started[1]
        worker.stop()
        await running
    counts = worker.counts
    return {
        "jobs": done,
        "seconds": seconds,
        "cpu": cpu,
        "statements": statements,
        "lost": counts.claimed - counts.succeeded - counts.given_back,
        "failed": counts.failed + counts.stale,
    }


async def run_large(jobs: int, budget: int) -> dict[str, float]:
    """Run large jobs, which stay for a while, through a worker with a budget in MiB; return the memory it needed."""
    app = App()
    most = ran = 0
    done = asyncio.Event()

    @app.actor(channel=QUEUE, name=ACTOR)
    async def large(text: str) -> None:  # noqa: ARG001 - it is held, that is all
        nonlocal most, ran
        most = max(most, sum(usage.bytes for usage in worker.usage()))
        await asyncio.sleep(STAY)
        ran += 1
        if ran >= jobs:
            done.set()

    worker = Worker(app, limits=MessageLimits(max_payload_bytes=budget * 1024 * 1024))
    base = _peak()
    running = asyncio.create_task(worker.run())
    await done.wait()
    worker.stop()
    await running
    return {"peak": _peak(), "base": base, "most": most, "failed": worker.counts.failed}


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def run_idle(seconds: int, _: int) -> dict[str, object]:
    """Be idle for so long, then run jobs that say when they were sent, until a line comes in."""
    app = App()
    waits: list[float] = []

    @app.actor(channel=QUEUE, name=ACTOR)
    async def noop(sent_at: float) -> None:
        waits.append(monotonic() - sent_at)

    with counted_statements() as sent:
        worker = Worker(app)
        running = asyncio.create_task(worker.run())
        await asyncio.sleep(IDLE_AFTER)
        before = Counter(sent)
        start = perf_counter()
        await asyncio.sleep(seconds)
        idle = Counter(sent)
        idle.subtract(before)
        idle_for = perf_counter() - start
        print(READY, flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        worker.stop()
        await running
    return {"seconds": idle_for, "statements": without_heartbeats(idle), "waits": waits}


async def run_serve(line: int, slots: int) -> dict[str, int]:
    """Serve the queue of that number until a line comes in, with jobs that do nothing."""
    app = App()

    @app.actor(channel=f"{LINE}{line}", name=ACTOR)
    async def noop() -> None:
        pass

    worker = Worker(app, slots=slots)
    running = asyncio.create_task(worker.run())
    print(READY, flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    worker.stop()
    await running
    return {"succeeded": worker.counts.succeeded}


KINDS = {
    "bare": run_bare,
    "worker": run_worker,
    "scoped": run_scoped,
    "large": run_large,
    "idle": run_idle,
    "serve": run_serve,
}


def main() -> None:
    """Run one child."""
    kind, first, second = sys.argv[1:]
    with suppress(KeyboardInterrupt):
        print(json.dumps(asyncio.run(KINDS[kind](int(first), int(second)))))


if __name__ == "__main__":
    main()
