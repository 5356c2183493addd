"""Two queues that share one key with ``max_running=1``: a start in one waits for a finish in the other.

Bars: 1,000 jobs each run at 0.8 x the rate at least of one queue alone, and no pause between two starts is longer than
100 ms. Two real workers, one a queue, one slot each; the database's instants of the starts tell.
"""

from statistics import median
from typing import Any

from bench.backlogs import Load, fill, order_queue
from bench.children import LINE
from bench.databases import connection, database
from bench.forms import Form
from bench.rows import Row
from bench.workers import start_child, until_ready

BAR = 0.8
PAUSE_BAR = 100.0

_LEFT = "select count(*) from tidegate.jobs"

# from the first start at which both workers are there
_STARTS = """
select count(*) jobs, extract(epoch from max(started_at) - min(started_at))::float8 seconds,
       extract(epoch from max(gap))::float8 pause
  from (select started_at, started_at - lag(started_at) over (order by started_at) gap from tidegate.history
         where started_at >= (
           select max(first) from (select min(started_at) first from tidegate.history group by queue) f)) s
"""

_MOST = """
select max(running) from (
  select sum(change) over (order by instant, change) running
    from tidegate.history, lateral (values (started_at, 1), (finished_at, -1)) c(instant, change)) r
"""


async def measure_two_queues(server_url: str, form: Form) -> list[Row]:
    """Return the rows of this module."""
    jobs, rounds = form.pick(200, 1_000, 1_000), form.pick(1, 3, 5)
    alone: list[Any] = []
    shared: list[Any] = []
    most = 0
    for index in range(rounds):
        sides = [(1, alone), (2, shared)]
        for queues, seen in sides if index % 2 else reversed(sides):
            starts, at_once = await _run(server_url, queues, jobs)
            seen.append(starts)
            most = max(most, at_once)
    one, two = ([each["jobs"] / each["seconds"] for each in seen] for seen in (alone, shared))
    return [
        Row(
            name="jobs a second of two queues that share a key with max_running=1, beside one queue",
            value=median(two) / median(one),
            unit="ratio",
            bar=BAR,
            sense=">=",
            samples=rounds,
            note=f"{median(two):,.0f} jobs/s beside {median(one):,.0f}; {jobs:,} jobs each, one worker a queue",
        ),
        Row(
            name="longest pause between two starts of that key",
            value=max(each["pause"] for each in shared) * 1e3,
            unit="ms",
            bar=PAUSE_BAR,
            samples=sum(each["jobs"] for each in shared),
            note=f"with one queue {max(each['pause'] for each in alone) * 1e3:.0f} ms",
        ),
        Row(
            name="most jobs of that key that ran at once",
            value=most,
            unit="jobs",
            bar=1,
            samples=3 * rounds * jobs,
            note="by the starts and finishes in the history",
            timed=False,
        ),
    ]


async def _run(server_url: str, queues: int, jobs: int) -> tuple[Any, int]:
    async with database(server_url) as url, connection(url) as connected:
        names = [f"{LINE}{number}" for number in range(queues)]
        for name in names:
            await order_queue(connected, "priority", name)
        await fill(connected, *(Load(jobs=jobs, keys=1, cap=1, queue=name) for name in names))
        workers = [await start_child(url, "serve", number, 1) for number in range(queues)]
        for worker in workers:
            await until_ready(worker)
        while await connected.fetchval(_LEFT):
            await connected.execute("select pg_sleep(0.1)")
        for worker in workers:
            await worker.communicate(b"\n")
        return await connected.fetchrow(_STARTS), await connected.fetchval(_MOST)
