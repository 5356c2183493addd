"""What the limits of a process cost, and what they hold: throughput with and without them, memory, waiters."""

from statistics import median
from time import perf_counter, process_time
from typing import Any

from bench.backlogs import Load, fill, order_queue
from bench.children import ENOUGH
from bench.databases import ACTOR, QUEUE, connection, database
from bench.forms import Form
from bench.rows import Row
from bench.samples import interval
from bench.workers import result_of, start_child
from tidegate.flow.flows import Flow
from tidegate.flow.pools import Pool
from tidegate.flow.refusals import Refusal
from tidegate.flow.reservations import Reservation, Reservations, State, Way
from tidegate.flow.scopes import ChannelScope, RouterScope
from tidegate.model.capacity import ActorLimits, MessageLimits
from tidegate.model.defaults import SLOTS
from tidegate.testing import InMemoryWorker, in_memory_actor, received

MEBIBYTE = 1024 * 1024

BUDGET = 64
"""MiB of payloads that a worker may hold."""

SAMPLES = 25
CLAIMS = 300
"""In a sample, of as many messages as there are slots."""

_FILL = """
insert into tidegate.jobs(queue, actor, payload)
select $1, $2, jsonb_build_object('text', repeat('x', 1048576 - 12)) from generate_series(1, $3::int)
"""


async def measure_capacity(server_url: str, form: Form) -> list[Row]:
    """Return the rows of this module."""
    return [
        *await _overhead(server_url, jobs=2_000, rounds=form.pick(5, 31, 31)),
        *await _memory(server_url, jobs=form.pick(300, 10_000, 10_000)),
        _release(releases=form.pick(300, 3_000, 3_000), rounds=form.pick(5, 15, 15)),
    ]


async def _overhead(server_url: str, jobs: int, rounds: int) -> list[Row]:
    """Run the same jobs in turn through a worker with slots alone and one with both limits at all four scopes.

    Rates of single rounds differ by half on a machine with other work on it: what is added to a job in one process
    tells then whether a median below the bar is theirs or the machine's.
    """
    plain: list[dict[str, Any]] = []
    scoped: list[dict[str, Any]] = []
    async with database(server_url) as url, connection(url) as connected:
        await order_queue(connected, "fair")
        await fill(connected, Load(jobs=(2 * rounds + 2) * (jobs + 20 * SLOTS)))
        for index in range(rounds + 1):
            sides = [("worker", plain), ("scoped", scoped)]
            for kind, results in sides if index % 2 else reversed(sides):
                result = await result_of(await start_child(url, kind, jobs, SLOTS))
                if index:  # the first of each fills caches
                    results.append(result)
    rates = [_rate(one) / _rate(other) for one, other in zip(scoped, plain, strict=True)]
    cpu = [_cpu(one) / _cpu(other) for one, other in zip(scoped, plain, strict=True)]
    added = _added()
    return [
        Row(
            name=f"jobs a second with limits at all four scopes that do not bind, {SLOTS} slots",
            value=median(rates),
            unit="ratio",
            bar=0.95,
            sense=">=",
            samples=rounds,
            note=(
                f"{median(map(_rate, scoped)):,.0f} jobs/s beside {median(map(_rate, plain)):,.0f} with slots alone; "
                f"{min(rates):.2f} to {max(rates):.2f} in rounds of {jobs:,}; 95 % interval of the median "
                "{:.2f} to {:.2f}".format(*interval(rates))
            ),
        ),
        Row(
            name="processor time of a no-op job with what they add to it, counted in one process",
            value=1 + added / median(map(_cpu, plain)),
            unit="ratio",
            samples=SAMPLES,
            note=f"{added * 1e6:.1f} µs added to {median(map(_cpu, plain)) * 1e6:.0f}",
        ),
        Row(
            name="processor time of the worker for it",
            value=median(cpu),
            unit="ratio",
            samples=rounds,
            note=f"{median(map(_cpu, scoped)) * 1e6:.0f} µs a job beside {median(map(_cpu, plain)) * 1e6:.0f}",
        ),
        Row(
            name="statements per finished job with limits that do not bind",
            value=max(each["statements"] / each["jobs"] for each in scoped),
            unit="statements",
            bar=0.2,
            samples=rounds,
            note="everything that the process sent",
            timed=False,
        ),
    ]


def _added() -> float:
    """Return the seconds that both limits at all four scopes add to a message's way through the process.

    Workers in turn differ by more than that, whatever their limits, when others use the machine.
    """
    narrow = ActorLimits(max_messages=1_000, max_payload_bytes=ENOUGH)
    wide = ActorLimits(max_messages=1_000, max_payload_bytes=ENOUGH)
    actor = in_memory_actor(ACTOR, channel=QUEUE, router=RouterScope(limits=wide), limits=narrow)
    channel = ChannelScope(address=QUEUE, limits=MessageLimits(max_messages=1_000, max_payload_bytes=ENOUGH))
    every = MessageLimits(max_messages=SLOTS, max_payload_bytes=ENOUGH)
    flows = (
        InMemoryWorker([in_memory_actor(ACTOR, channel=QUEUE)], limits=MessageLimits(max_messages=SLOTS)).flow,
        InMemoryWorker([actor], channels=[channel], limits=every).flow,
    )
    pairs = [tuple(_passing(flow) for flow in flows) for _ in range(SAMPLES)]
    return median(scoped - plain for plain, scoped in pairs)


def _passing(flow: Flow) -> float:
    """Return the processor seconds of one message through claim, lease and end, as many at once as there are slots."""
    messages = [received(ACTOR, queue=QUEUE) for _ in range(SLOTS)]
    start = process_time()
    for _ in range(CLAIMS):
        ask = flow.intake.ask(QUEUE)
        if ask is None:
            raise AssertionError("nothing is held, and there is no room")
        for message, hold in zip(messages, flow.intake.take(ask, messages, None), strict=True):
            if isinstance(hold, Refusal):
                raise TypeError("a small message is refused")
            flow.execution.reserve(message, hold).release()
            hold.release()
    return (process_time() - start) / CLAIMS / SLOTS


def _rate(result: dict[str, Any]) -> float:
    return float(result["jobs"] / result["seconds"])


def _cpu(result: dict[str, Any]) -> float:
    return float(result["cpu"] / result["jobs"])


async def _memory(server_url: str, jobs: int) -> list[Row]:
    async with database(server_url) as url, connection(url) as connected:
        await connected.execute(_FILL, QUEUE, ACTOR, jobs)
        result = await result_of(await start_child(url, "large", jobs, BUDGET))
    return [
        Row(
            name=f"peak memory of a worker with a budget of {BUDGET} MiB, fed {jobs:,} jobs of 1 MiB",
            value=result["peak"] / MEBIBYTE,
            unit="MiB",
            bar=BUDGET + 100,
            samples=jobs,
            note=(
                f"resident; {result['base'] / MEBIBYTE:.0f} MiB of it before the first job; "
                f"{result['most'] / MEBIBYTE:.0f} MiB of payloads held at most"
            ),
            timed=False,
        ),
        Row(
            name="most bytes of payloads held at once, of the budget",
            value=result["most"] / (BUDGET * MEBIBYTE),
            unit="ratio",
            bar=1,
            samples=jobs,
            note="looked at whenever a job starts",
            timed=False,
        ),
    ]


def _release(releases: int, rounds: int) -> Row:
    few, many = [], []
    for _ in range(rounds):
        few.append(_seconds_of_a_release(10, releases))
        many.append(_seconds_of_a_release(1_000, releases))
    return Row(
        name="one release with 1,000 messages waiting, beside 10",
        value=median(many) / median(few),
        unit="ratio",
        bar=2,
        samples=rounds,
        note=f"{median(many) * 1e6:.1f} µs beside {median(few) * 1e6:.1f}; each lets the next one in; router and actor",
    )


def _seconds_of_a_release(waiters: int, releases: int) -> float:
    """Return the mean seconds of a release that lets the next one in, among so many that wait."""
    router = Pool("router", 8, 1_000_000)
    ways = [Way([Pool(f"actor {number}", 4, 500_000), router]) for number in range(4)]
    reservations = Reservations()
    inside: list[Reservation] = []

    def enter(number: int) -> None:
        inside.append(reservations.enter(ways[number % len(ways)], 100 + number % 50, lambda: None))

    for number in range(waiters + 8):
        enter(number)
    spent = 0.0
    for number in range(releases):
        granted = next(each for each in inside if each.state is State.GRANTED)
        inside.remove(granted)
        start = perf_counter()
        reservations.leave(granted)
        spent += perf_counter() - start
        enter(number)
    return spent / releases
