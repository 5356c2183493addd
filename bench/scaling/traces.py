"""Traces: jobs with their instants, keys and durations, and the limits of the keys. A seed always gives the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from random import Random

RECORDED = Path(__file__).with_name("recorded.json")
"""Jobs of one `make demo`, as its database recorded them: per instant and key the durations in milliseconds."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A Limit: ``max_running``, and ``max_starts`` in any ``window`` seconds; None is no bound."""

    max_running: int | None = None
    max_starts: int | None = None
    window: float = 60.0


@dataclass(frozen=True, slots=True)
class Job:
    """One job: when it is enqueued and how long it runs, in seconds, and under which key."""

    at: float
    seconds: float
    key: str = ""


@dataclass(frozen=True)
class Trace:
    """Jobs in the order of their arrival, with the rules of their keys."""

    name: str
    jobs: list[Job]
    rules: dict[str, Rule]


def recorded() -> Trace:
    """Return the demo's two tenants and its rate-limited vendor, from a recording."""
    record = json.loads(RECORDED.read_text(encoding="utf-8"))
    rules = {key: Rule(**rule) for key, rule in record["rules"].items()}
    jobs = [Job(at, ms / 1000, key) for at, key, durations in record["jobs"] for ms in durations]
    return Trace("recorded: the demo", jobs, rules)


def named(hours: float) -> Iterator[Trace]:
    """Yield the shapes that autoscalers are known to stumble over."""
    span = hours * 3600
    chance = Random("tidegate")  # noqa: S311 - the same every time
    yield Trace("steady", _poisson(chance, span, 1.5, mean=4), {})
    yield Trace("bursts every 10 minutes", _bursts(chance, span, every=600, jobs=400, mean=3), {})
    vendor = [Job(60.0, chance.expovariate(1 / 5), "vendor") for _ in range(int(hours * 1500))]
    yield Trace(
        "backlog of a key that runs 4", _merged(vendor, _poisson(chance, span, 0.05, mean=3)), {"vendor": Rule(4)}
    )
    paced = [Job(60.0, chance.uniform(2, 4), "vendor") for _ in range(int(hours * 2400))]
    rate = Rule(max_starts=30, window=60)
    yield Trace(
        "backlog of a key with 30 starts a minute",
        _merged(paced, _poisson(chance, span, 0.05, mean=3)),
        {"vendor": rate},
    )
    yield Trace("long jobs, mean 5 minutes", _poisson(chance, span * 0.6, 0.08, mean=300), {})
    yield Trace("one job every 15 minutes", [Job(at, 20.0) for at in _steps(span, 900)], {})


def random_traces(hours: float, seeds: int) -> Iterator[Trace]:
    """Yield mixtures of bursts, streams, long and short jobs and limits of every kind."""
    for seed in range(seeds):
        yield random_trace(hours * 3600, seed)


def random_trace(span: float, seed: int) -> Trace:
    """Return the mixture of this seed, over ``span`` seconds."""
    chance = Random(seed)  # noqa: S311 - the same every time
    rules: dict[str, Rule] = {}
    streams: list[list[Job]] = []
    for number in range(chance.randint(2, 6)):
        key = chance.choice(["", f"key-{number}"])
        if key:
            rules[key] = Rule(
                chance.choice([None, 1, 3, 10]),
                chance.choice([None, 5, 60]),
                chance.choice([10.0, 60.0, 300.0]),
            )
        mean = chance.choice([0.5, 3, 20, 120])
        if chance.random() < 0.5:
            part = _poisson(chance, span, chance.choice([0.02, 0.3, 1.0]), mean=mean)
        else:
            part = _bursts(chance, span, every=chance.choice([300, 1500]), jobs=chance.choice([20, 150]), mean=mean)
        streams.append([Job(job.at, job.seconds, key) for job in part])
    return Trace(f"random {seed}", _merged(*streams), rules)


def _merged(*streams: list[Job]) -> list[Job]:
    return sorted(chain(*streams), key=lambda job: job.at)


def _steps(span: float, every: float) -> list[float]:
    return [every * n for n in range(1, int(span / every))]


def _poisson(chance: Random, span: float, rate: float, *, mean: float) -> list[Job]:
    jobs, at = [], 0.0
    while (at := at + chance.expovariate(rate)) < span:
        jobs.append(Job(at, chance.expovariate(1 / mean) + 0.1))
    return jobs


def _bursts(chance: Random, span: float, *, every: float, jobs: int, mean: float) -> list[Job]:
    return [Job(at, chance.expovariate(1 / mean) + 0.1) for at in _steps(span, every) for _ in range(jobs)]
