"""How far the limits of actors bound what a channel takes in."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from math import inf
from typing import Final, Literal, TypeAlias

from tidegate.errors import ConfigurationError
from tidegate.model.capacity import ActorLimits

Propagation: TypeAlias = Literal["on", "off"]
"""Value of ``actor_limits_propagation``."""

_SOURCE: Final = "source"
_SINK: Final = "sink"


def check_propagation(value: object) -> Propagation:
    """Return the value of ``actor_limits_propagation``.

    Raises:
        ConfigurationError: it is neither ``on`` nor ``off``.
    """
    if value == "on":
        return "on"
    if value == "off":
        return "off"
    raise ConfigurationError(f"actor_limits_propagation must be 'on' or 'off'; got {value!r}")


def message_cap(paths: Iterable[Sequence[ActorLimits]]) -> int | None:
    """Return how many messages of a channel can run at once; None where nothing bounds the messages of some actor.

    Args:
        paths: for each actor of the channel the limits that it passes, its router's first; nothing where it has none.
    """
    return most_at_once(paths, lambda limits: limits.max_messages)


def byte_cap(paths: Iterable[Sequence[ActorLimits]]) -> int | None:
    """Return how many bytes of payloads of a channel can run at once; None where nothing bounds those of some actor."""
    return most_at_once(paths, lambda limits: limits.max_payload_bytes)


def most_at_once(paths: Iterable[Sequence[ActorLimits]], capacity: Callable[[ActorLimits], int | None]) -> int | None:
    """Return the most that all pools together let through.

    Along one path that is its smallest pool, over paths the sum over their distinct pools: 4 for a router's 20 and its
    only actor's 4, 8 for two actors with 3 and 5, 12 for two that share an object with 12, 20 for a router's 20 however
    much more its actors may run. In general it is the greatest flow through the pools, each of which is passed once.
    """
    network: dict[Hashable, dict[Hashable, float]] = defaultdict(dict)
    for path in paths:
        bounded = [limits for limits in dict.fromkeys(path) if capacity(limits) is not None]
        if not bounded:
            return None
        before: Hashable = _SOURCE
        for limits in bounded:
            network[before][limits, "in"] = inf
            network[limits, "in"][limits, "out"] = capacity(limits) or 0
            before = (limits, "out")
        network[before][_SINK] = inf
    return _greatest_flow(network)


def _greatest_flow(network: dict[Hashable, dict[Hashable, float]]) -> int:
    """Fill shortest paths until none is left (Edmonds and Karp). Some hundred actors, once, at the start."""
    total = 0
    while (path := _shortest(network)) is not None:
        amount = min(network[here][there] for here, there in path)
        for here, there in path:
            network[here][there] -= amount
            network[there][here] = network[there].get(here, 0) + amount
        total += int(amount)
    return total


def _shortest(network: dict[Hashable, dict[Hashable, float]]) -> list[tuple[Hashable, Hashable]] | None:
    came_from: dict[Hashable, Hashable] = {}
    reached: deque[Hashable] = deque([_SOURCE])
    while reached:
        here = reached.popleft()
        for there, room in network[here].items():
            if room > 0 and there not in came_from and there != _SOURCE:
                came_from[there] = here
                reached.append(there)
    if _SINK not in came_from:
        return None
    path: list[tuple[Hashable, Hashable]] = []
    at: Hashable = _SINK
    while at != _SOURCE:
        path.append((came_from[at], at))
        at = came_from[at]
    return path
