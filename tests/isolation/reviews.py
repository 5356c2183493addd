"""What a concurrent permutation is worth: the same as a serial one, or that one later, or something that was reviewed.

The expected outputs are written in these terms: for each pair the different outcomes, each with the orders of steps
that come to it. A concurrent order mostly stands beside a serial one. What equals neither has the reason why it may,
and a reason is not recorded but given by the rules below. An output without one fails its test, whatever is recorded.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.isolation.schedules import Outcome, Steps

EXPECTED = Path(__file__).with_name("expected")

SERIAL: tuple[Steps, Steps] = (("one", "commit1", "two", "commit2"), ("two", "commit2", "one", "commit1"))

APART = {
    "claim-from-b + rescue": "the jobs that the passed over worker keeps are still its own, f1 is free for all",
    "hand-in + rescue": "the jobs that the passed over worker keeps are still its own, f1 is free for all",
    "claim-from-b + wake": "the last place of k and the one start of s are for whoever comes first, here for queue a",
}
"""Pairs that may end as neither serial order does, where an operation steps over a row that the other one holds."""


def in_the_end(outcome: Outcome) -> dict[str, frozenset[str]]:
    """Return which jobs wait, run and are over once everybody who may start has started, whoever runs what."""
    started = frozenset(outcome.settled.replace("nothing", "").split())
    places: dict[str, frozenset[str]] = {"running": started}
    for part in outcome.stand.split("; "):
        place, *items = part.split()
        if place == "worker":
            place, items = "running", items[1:]
        waits = place in {"ready", "scheduled"}
        places[place] = places.get(place, frozenset()) | (frozenset(items) - started if waits else frozenset(items))
    return {place: items for place, items in places.items() if items}


def stepped_over(outcome: Outcome) -> Iterator[str]:
    """Yield what was busy for whom, as its own answer says."""
    for operation, said in zip((outcome.pair.first, outcome.pair.second), outcome.said, strict=True):
        if ", again" in said:
            yield "a claim met a busy key or job and is to ask again"
        if ", wake " in said:
            yield "an outcome met a busy key and left mail"
        if operation.name == "wake" and said != "woken":
            yield "wake() met busy keys and returns them"
        if operation.name == "rescue" and not ("worker 1" in said and "worker 2" in said):
            yield "a rescue passed over a worker whose row was held"


def explain(outcome: Outcome, serials: Sequence[Outcome]) -> str | None:
    """Return why this outcome is right: empty where it is that of a serial order, None when nothing says so."""
    if any(outcome.told == serial.told for serial in serials):
        return ""
    over = ", ".join(stepped_over(outcome))
    if not over:
        return None
    for serial in serials:
        if in_the_end(outcome) == in_the_end(serial):
            return f"{over}; ends as {' '.join(serial.order)}"
    apart = APART.get(outcome.pair.name)
    return f"{over}; {apart}" if apart else None


def rendered(outcomes: Sequence[Outcome]) -> str:
    """Return the text of an expected output.

    Raises:
        AssertionError: an order has two outcomes, or an outcome has no explanation.
    """
    pairs: dict[str, dict[Steps, Outcome]] = {}
    for outcome in outcomes:
        other = pairs.setdefault(outcome.pair.name, {}).setdefault(outcome.order, outcome)
        assert other.told == outcome.told, f"where it begins makes a difference: {other}, {outcome}"
    lines: list[str] = []
    for name, orders in pairs.items():
        lines += ["", name]
        serials = [orders[order] for order in SERIAL]
        told: dict[object, list[Outcome]] = {}
        for outcome in orders.values():
            told.setdefault(outcome.told, []).append(outcome)
        for same in told.values():
            why = explain(same[0], serials)
            assert why is not None, f"as neither serial order, and nothing explains it: {same}"
            first = same[0]
            lines += ["  " + "; ".join(map(_written, same)) + (f": {why}" if why else "")]
            lines += [f"    {first.said[0]} | {first.said[1]} | {first.stand} | then {first.settled}"]
    return "\n".join([*lines[1:], ""])


def _written(outcome: Outcome) -> str:
    """Write an order; whoever waits stands in brackets, as its answer comes after the other commit."""
    return " ".join(f"[{step}]" if step == outcome.waited else step for step in outcome.order)
