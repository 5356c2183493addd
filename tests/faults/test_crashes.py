"""The server itself crashes and comes back, with early claims that the disk never saw."""

import asyncio
import os
import signal
from collections import Counter
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path

import asyncpg

from tests.postgres.workers_at_work import Worker, all_succeeded, at_work, no_drift, until
from tidegate import App
from tidegate.store.embedded import EmbeddedServer, free_port
from tidegate.store.engine import Engine
from tidegate.store.migrating import migrate
from tidegate.store.workers import WorkerStore


def crash(server: EmbeddedServer) -> None:
    """End the server at once, without a checkpoint; what was committed but not flushed is gone."""
    first_line = (server.folder / "data" / "postmaster.pid").read_text(encoding="utf-8").split("\n", 1)[0]
    os.kill(int(first_line), signal.SIGQUIT)
    server.stop()


async def migrated(url: str) -> None:
    engine = Engine(url)
    await migrate(engine)
    await engine.close()


class UnflushedStore(WorkerStore):
    """Acts on early claims before the disk has them."""

    async def flush(self) -> None:
        """Promise what is not done."""


async def through_crashes(folder: Path, store: type[WorkerStore]) -> Counter[int]:
    """Run 1,500 jobs through three crashes of the server; return how often each ran."""
    # a log writer that sleeps long leaves the flush of early claims to the worker that asks for it
    server = EmbeddedServer(folder, port=free_port(), options={"wal_writer_delay": "10s"})
    server.start()
    try:
        await migrated(server.url)
        runs: Counter[int] = Counter()
        async with App(server.url) as app:

            @app.actor(channel="a")
            async def actor(number: int) -> None:
                runs[number] += 1
                await asyncio.sleep(0.002)

            def worker() -> AbstractAsyncContextManager[Worker]:
                # the lease outlives a crash, so nothing is run again for the sake of a lease
                own = store(server.url, heartbeat_timeout=timedelta(seconds=5))
                return at_work(app, slots=4, lease=20.0, store=own)

            await app.engine.execute("select * from tidegate.change_limit('k', '{\"max_running\": 1000}')")
            # two share the queue, so their claims are early ones
            async with worker() as one, worker() as other:
                await actor.using(limit_key="k").enqueue_many([{"number": number} for number in range(1500)])
                for done in (200, 400, 600):
                    await enough(runs, done)
                    crash(server)
                    server.start()
                    await reachable(server.url)
                await all_succeeded(app, 1500)
            assert (one.endings, other.endings) == ([], [])
            spent = await app.engine.fetch("select distinct attempt, lost from tidegate.history")
            assert [tuple(row) for row in spent] == [(1, 0)]
            await no_drift(app)
    finally:
        server.stop()
    return runs


async def test_a_server_that_crashes_under_load_loses_nothing_and_repeats_nothing(server_folder: Path) -> None:
    # no actor saw a claim that the crash undid, and no outcome was forgotten before the disk had it
    assert await through_crashes(server_folder, WorkerStore) == Counter(range(1500))


async def test_without_the_flush_a_crash_repeats_jobs(server_folder: Path) -> None:
    """The control: what the test above is blind to would not show here either."""
    runs = await through_crashes(server_folder, UnflushedStore)
    assert set(runs) == set(range(1500))
    assert runs.total() > 1500


async def enough(runs: Counter[int], done: int) -> None:
    async def look() -> bool:
        return len(runs) >= done

    await until(look)


async def reachable(url: str) -> None:
    async def look() -> bool:
        try:
            connection = await asyncpg.connect(url, timeout=5)
        except (OSError, asyncpg.PostgresError):
            return False
        await connection.close()
        return True

    await until(look)
