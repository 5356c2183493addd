"""A model of the view ``queue_demand``: it counts the jobs one by one, as the view must not."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from math import ceil
from typing import Any

HORIZON = timedelta(seconds=30)
MOST_DUE = 100
SAMPLE = 1000


@dataclass(frozen=True)
class Demand:
    """What the model expects of one queue."""

    suspended: bool
    running: int
    waiting: int
    runnable: int
    blocked_by: tuple[tuple[str, int, str], ...]


async def expected(connection: Any) -> dict[str, Demand]:
    """Return what the view should say of each queue, from the jobs, the policies, the marks and the history."""
    now = await connection.fetchval("select clock_timestamp()")
    held = {r["name"]: r["held"] for r in await connection.fetch(_QUEUES)}
    waiting, running = _jobs(await connection.fetch(_JOBS), now)
    sample = defaultdict(list)
    for row in await connection.fetch("select * from tidegate.history order by id desc limit $1", SAMPLE):
        if row["started_at"]:
            sample[row["limit_key"]].append((row["finished_at"] - row["started_at"]).total_seconds())
    marks = defaultdict(list)
    for row in await connection.fetch("select * from tidegate.limit_starts"):
        marks[row["key"]].append((now - row["started_at"], row["n"]))

    runnable = dict(waiting)
    reasons: dict[str, str] = {}
    for policy in await connection.fetch("select * from tidegate.keys where key <> ''"):
        key = policy["key"]
        queues = [q for (q, k), n in waiting.items() if k == key and n and not held.get(q)]
        total = sum(waiting[q, key] for q in queues)
        busy = sum(n for (_, k), n in running.items() if k == key)
        room, reasons[key] = _room(policy, busy, marks[key], sample[key])
        if room is None or room >= total:
            continue
        for queue in queues:
            runnable[queue, key] = int(Fraction(waiting[queue, key] * room, total))
        odd = room - sum(runnable[queue, key] for queue in queues)
        for queue in sorted(queues, key=lambda q: (running[q, key], q))[:odd]:
            runnable[queue, key] += 1

    found = {}
    for name in {*held, *(q for q, _ in waiting), *(q for q, _ in running)}:
        keys = [k for q, k in waiting if q == name]
        blocked = [(k, waiting[name, k] - runnable[name, k], reasons.get(k, "")) for k in keys]
        blocked = sorted((b for b in blocked if b[1]), key=lambda b: (-b[1], b[0]))[:10]
        found[name] = Demand(
            suspended=held.get(name, False),
            running=sum(n for (q, _), n in running.items() if q == name),
            waiting=sum(waiting[name, k] for k in keys),
            runnable=0 if held.get(name) else sum(runnable[name, k] for k in keys),
            blocked_by=() if held.get(name) else tuple(blocked),
        )
    return found


Counts = dict[tuple[str, str], int]


def _jobs(rows: list[Any], now: datetime) -> tuple[Counts, Counts]:
    """Waiting and running jobs by (queue, limit key)."""
    waiting: Counts = defaultdict(int)
    running: Counts = defaultdict(int)
    due: dict[str, int] = defaultdict(int)
    for row in rows:
        place = row["queue"], row["limit_key"]
        if row["state"] == "running":
            running[place] += 1
        elif row["state"] == "ready":
            waiting[place] += 1
        elif row["run_at"] <= now and due[row["queue"]] < MOST_DUE:
            due[row["queue"]] += 1
            waiting[place] += 1
    return waiting, running


def _room(policy: Any, running: int, marks: list[tuple[timedelta, int]], sample: list[float]) -> tuple[int | None, str]:
    by_running = None if policy["max_running"] is None else max(0, policy["max_running"] - running)
    if policy["max_starts"] is None:
        return by_running, "MaxRunning"
    window: timedelta = policy["rate_window"]
    used = sum(n for age, n in marks if age < window)
    bounds = [policy["max_starts"] - sum(n for age, n in marks if age < window - HORIZON)]
    if sample:
        mean = Fraction(sum(map(Fraction, sample))) / len(sample)
        bounds.append(max(1, ceil(policy["max_starts"] * mean / Fraction(window.total_seconds()))) - running)
    elif used:
        bounds.append(max(1, ceil(Fraction(policy["max_starts"] * running, used))) - running)
    by_rate = max(0, min(bounds))
    if by_running is not None and by_running <= by_rate:
        return by_running, "MaxRunning"
    return by_rate, "Rate"


_QUEUES = "select name, suspended or held_by_hand held from tidegate.queues"

_JOBS = """
select queue, limit_key, state, run_at from tidegate.jobs
 where state <> 'scheduled' or expires_at is null or expires_at > clock_timestamp() order by run_at, id
"""
