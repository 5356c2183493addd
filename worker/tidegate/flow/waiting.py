"""Who waits for the same pools: first come, first served, and a quick answer to who is small enough."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.flow.reservations import Reservation

_SMALLEST = 16


class WaitingLine:
    """Reservations in order of arrival.

    Places are filled from left to right, and emptied anywhere. Over them stands a tree, of which each node knows the
    smallest size below it, where ``sized`` asks for it: it finds the earliest that is small enough without looking at
    the others. Adding, removing the first and finding that nobody is small enough take a step or two as a rule; a step
    a level, ten for a thousand, is the worst.
    """

    __slots__ = ("_capacity", "_first", "_least", "_live", "_next", "_places", "_sized")

    def __init__(self, *, sized: bool) -> None:
        self._sized = sized
        self._first = self._next = self._live = 0
        self._fill([])

    def __len__(self) -> int:
        return self._live

    @property
    def head(self) -> Reservation:
        """The earliest one; there must be one."""
        places = self._places
        first = self._first
        while (reservation := places[first]) is None:
            first += 1
        self._first = first
        return reservation

    def append(self, reservation: Reservation) -> None:
        """Add the latest arrival."""
        if self._next == self._capacity:
            # At least half of the new places are free: so many arrivals pay for the next time.
            self._fill([waiting for waiting in self._places if waiting is not None])
        self._enter(reservation)

    def remove(self, reservation: Reservation) -> None:
        """Take out one that is in."""
        self._places[reservation.place] = None
        self._live -= 1
        if not self._sized:
            return
        least = self._least
        node = self._capacity + reservation.place
        least[node] = inf
        node >>= 1
        while node:
            smallest = min(least[2 * node], least[2 * node + 1])
            if smallest == least[node]:
                break
            least[node] = smallest
            node >>= 1

    def first_within(self, size: float) -> Reservation | None:
        """Return the earliest that has at most this size; the line must be sized."""
        least = self._least
        if least[1] > size:
            return None
        node = 1
        while node < self._capacity:
            node *= 2
            if least[node] > size:
                node += 1
        return self._places[node - self._capacity]

    def _enter(self, reservation: Reservation) -> None:
        place = reservation.place = self._next
        self._next += 1
        self._live += 1
        self._places[place] = reservation
        if not self._sized:
            return
        least = self._least
        size = reservation.size
        node = self._capacity + place
        while node and least[node] > size:
            least[node] = size
            node >>= 1

    def _fill(self, waiting: list[Reservation]) -> None:
        self._capacity = _SMALLEST
        while self._capacity < 2 * len(waiting):
            self._capacity *= 2
        self._places: list[Reservation | None] = [None] * self._capacity
        self._least: list[float] = [inf] * (2 * self._capacity if self._sized else 0)
        self._first = self._next = self._live = 0
        for reservation in waiting:
            self._enter(reservation)
