"""Pools: the capacity of one limits object, whoever shares it."""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.flow.reservations import Reservation, Way

NEVER = inf
"""Arrival number that no message has: later than every other."""


class Pool:
    """What one limits object allows, and what is taken of it.

    A payload larger than ``max_bytes`` is oversized: it fits when the pool is empty, and then nothing fits beside it.
    One of exactly ``max_bytes`` is an ordinary one.

    Attributes:
        name: the scopes that share it, for people.
        max_messages: None for any number.
        max_bytes: None for any.
        messages: those that are in.
        bytes: the sum of their payloads.
    """

    __slots__ = (
        "_closers",
        "_entered",
        "_order",
        "bytes",
        "max_bytes",
        "max_messages",
        "messages",
        "name",
        "parked",
        "sized_ways",
    )

    def __init__(self, name: str, max_messages: int | None, max_bytes: int | None) -> None:
        self.name = name
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        self.messages = 0
        self.bytes = 0
        self.parked: set[Way] = set()
        """Ways of which somebody waits for this pool: those to look at when it has room."""
        self.sized_ways: set[Way] = set()
        """Ways with somebody waiting, where ``max_bytes`` lets the small overtake the large."""
        self._order: list[tuple[int, Way]] = []
        self._entered: dict[Way, int] = {}
        self._closers: list[tuple[int, Reservation]] = []

    def __repr__(self) -> str:
        return (
            f"<pool of {self.name}: {self.messages}/{self.max_messages} messages, {self.bytes}/{self.max_bytes} bytes>"
        )

    @property
    def is_full(self) -> bool:
        """No message of any size fits."""
        return self.max_messages is not None and self.messages >= self.max_messages

    @property
    def free_messages(self) -> float:
        """Messages that fit; infinite where they are not counted."""
        return inf if self.max_messages is None else self.max_messages - self.messages

    @property
    def free_bytes(self) -> float:
        """Bytes that fit; infinite where they are not counted, negative beside an oversized payload."""
        return inf if self.max_bytes is None else self.max_bytes - self.bytes

    @property
    def usage(self) -> float:
        """The greater of the two shares in use; above 1 beside an oversized payload."""
        messages = 0.0 if self.max_messages is None else self.messages / self.max_messages
        return messages if self.max_bytes is None else max(messages, self.bytes / self.max_bytes)

    def is_oversized(self, size: int) -> bool:
        """Tell whether a payload is larger than the whole budget."""
        return self.max_bytes is not None and size > self.max_bytes

    def fits(self, size: int) -> bool:
        """Tell whether a payload of so many bytes may enter, if nobody stands before it."""
        if self.max_messages is not None and self.messages >= self.max_messages:
            return False
        if self.max_bytes is None or self.bytes + size <= self.max_bytes:
            return True
        return size > self.max_bytes and not self.messages

    def take(self, size: int) -> None:
        """Count a message in."""
        self.messages += 1
        self.bytes += size

    def give(self, size: int) -> None:
        """Count a message out."""
        self.messages -= 1
        self.bytes -= size

    @property
    def closed_from(self) -> float:
        """Arrival number of the first reservation that lets nobody pass who came later; `NEVER` where there is none."""
        closers = self._closers
        while closers and not closers[0][1].is_waiting:
            heappop(closers)
        return closers[0][0] if closers else NEVER

    def close(self, reservation: Reservation) -> None:
        """Keep everybody out who came later, until the reservation is granted or given up."""
        heappush(self._closers, (reservation.arrival, reservation))

    @property
    def is_closed(self) -> bool:
        """Whoever arrives now has to wait."""
        return bool(self._closers) and self.closed_from < NEVER

    def park(self, way: Way) -> None:
        """Look at the way when this pool has room."""
        self.parked.add(way)
        arrival = way.head.arrival
        if self._entered.get(way) != arrival:
            self._entered[way] = arrival
            heappush(self._order, (arrival, way))

    def unpark(self, way: Way) -> None:
        """Look at the way no more."""
        self.parked.discard(way)

    def oldest(self) -> Way | None:
        """Return the parked way whose first message came first. Entries that are out of date are dropped here."""
        order = self._order
        while order:
            arrival, way = order[0]
            if way in self.parked and way.head.arrival == arrival:
                return way
            heappop(order)
            if self._entered.get(way) == arrival:
                del self._entered[way]
        return None
