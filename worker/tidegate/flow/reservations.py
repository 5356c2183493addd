"""Reservations of several pools at once: all or none, first come, first served, and no slot idles for nothing.

The rules, each of which the tests hold against every step of random histories:

- A reservation holds all pools on its way or none of them, so a full pool never keeps a slot of another one busy.
- Whoever fits goes. A later message may overtake one that does not fit, but none is overtaken more than `BYPASS` times
  in the pool that it waits for, nor misses its turn more often because of another pool. From then on it is *overdue*:
  it closes the pool that it waits for to everybody who came later, keeps it closed while it waits for the next one on
  its way, and so gets in as soon as those who came before it and those who run have left.
- An oversized payload, which waits for its pool to be empty, closes that pool from its arrival on. Those who came
  before it go first, so that neither starves the other.

No event loop here: a reservation that waited is told by its callback. Cost, whoever waits: granting and releasing look
at the ways parked at the pools concerned, never at the messages behind their first ones. A way waits for one full pool,
and is looked at when that has room; only where byte budgets let the small overtake the large is it parked at all its
pools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from typing import Final

from tidegate.flow.pools import Pool
from tidegate.flow.waiting import WaitingLine

BYPASS: Final = 32
"""How often a waiting message may be overtaken: enough for small ones to use what a large one cannot, and no more."""


class Way:
    """The pools that a kind of message passes, the narrowest first, and who waits to pass them."""

    __slots__ = ("last_passed", "line", "passes", "pools", "sized")

    def __init__(self, pools: Sequence[Pool]) -> None:
        self.pools = tuple(pools)
        self.sized = tuple(pool for pool in pools if pool.max_bytes is not None)
        self.line = WaitingLine(sized=bool(self.sized))
        self.passes = 0
        """How often the first of the line was overtaken, ever."""
        self.last_passed = 0

    @property
    def head(self) -> Reservation:
        """The first of the line."""
        return self.line.head


class State(Enum):
    """Where a reservation stands; it never goes back."""

    WAITING = auto()
    GRANTED = auto()
    OVER = auto()


class Reservation:
    """One message's share of the pools on its way.

    Attributes:
        way: its pools.
        size: bytes of its payload.
        arrival: its number; smaller ones came first.
        state: whether it waits.
        blocked: the pool that it waits for, as far as is known.
    """

    __slots__ = ("_granted", "arrival", "blocked", "closing", "mark", "misses", "place", "size", "state", "way")

    def __init__(self, way: Way, size: int, arrival: int, granted: Callable[[], None]) -> None:
        self.way = way
        self.size = size
        self.arrival = arrival
        self.state = State.WAITING
        self.blocked: Pool | None = None
        self.place = -1
        self.mark = way.passes
        self.misses = 0
        self.closing: tuple[Pool, ...] = ()
        self._granted = granted

    @property
    def is_waiting(self) -> bool:
        """Neither granted nor given up."""
        return self.state is State.WAITING

    def tell(self) -> None:
        """Call back: it waited and is granted."""
        self._granted()

    def is_overdue(self, bypass: int) -> bool:
        """Tell whether it was overtaken, or missed its turn, as often as allowed."""
        return self.way.passes - self.mark >= bypass or self.misses >= bypass


class Reservations:
    """Grants, keeps and ends reservations; see the module for the rules."""

    def __init__(self, bypass: int = BYPASS) -> None:
        self._bypass = bypass
        self._arrivals = 0

    def enter(self, way: Way, size: int, granted: Callable[[], None]) -> Reservation:
        """Return a reservation that is granted at once, or waits. `leave` ends it in either case.

        Args:
            way: the pools that it needs.
            size: bytes of its payload.
            granted: called once it is granted, if it has to wait; it must not call back into this object.
        """
        self._arrivals += 1
        reservation = Reservation(way, size, self._arrivals, granted)
        for pool in way.pools:
            if not pool.fits(size) or pool.is_closed:
                reservation.blocked = pool
                self._wait(reservation)
                return reservation
        self._grant(reservation)
        return reservation

    def leave(self, reservation: Reservation) -> None:
        """Give back what was granted, or wait no longer; nothing the second time. Grants what others can take then."""
        way = reservation.way
        before, reservation.state = reservation.state, State.OVER
        if before is State.GRANTED:
            for pool in way.pools:
                pool.give(reservation.size)
        elif before is State.WAITING:
            self._unpark(way)
            way.line.remove(reservation)
            self._park(way)
        else:
            return
        for pool in way.pools:
            if pool.parked:
                self._serve(way.pools)
                return

    def _wait(self, reservation: Reservation) -> None:
        way = reservation.way
        way.line.append(reservation)
        for pool in way.sized:
            if pool.is_oversized(reservation.size):
                self._close(reservation, pool)
        if len(way.line) == 1:
            self._park(way)

    def _serve(self, pools: Iterable[Pool]) -> None:
        """Grant whatever fits, the earliest first, where these pools have room again."""
        told: list[Reservation] = []
        opened: list[Pool] = list(pools)
        while opened:
            looking, opened = opened, []
            passed_over: list[Way] = []
            while (way := _oldest(looking)) is not None:
                self._unpark(way)
                chosen = self._choose(way)
                if chosen is None:
                    passed_over.append(way)
                    continue
                self._grant(chosen)
                way.line.remove(chosen)
                # What it closed is open: ways that were passed over for that get another look.
                opened += chosen.closing
                told.append(chosen)
                self._park(way)
            for way in passed_over:
                self._park(way)
        for reservation in told:
            reservation.tell()

    def _choose(self, way: Way) -> Reservation | None:
        """Return who of this way goes next, if anybody can."""
        head = way.head
        blocked: Pool | None = None
        for pool in way.pools:
            if not pool.fits(head.size) or pool.closed_from < head.arrival:
                blocked = pool
                break
        if blocked is None:
            return head
        if head.blocked is not blocked:
            head.misses += head.blocked is not None
            head.blocked = blocked
        if head.is_overdue(self._bypass):
            self._close(head, blocked)
        if not way.sized or any(pool.is_full for pool in way.pools):
            return None
        small = way.line.first_within(min(pool.free_bytes for pool in way.sized))
        if small is None or any(pool.closed_from < small.arrival for pool in way.pools):
            return None
        return small

    def _grant(self, reservation: Reservation) -> None:
        way = reservation.way
        for pool in way.sized:
            if pool.sized_ways:
                self._count_passes(pool, reservation)
        for pool in way.pools:
            pool.take(reservation.size)
        reservation.state = State.GRANTED

    def _count_passes(self, pool: Pool, overtaking: Reservation) -> None:
        for way in pool.sized_ways:
            head = way.head
            if head.blocked is pool and head.arrival < overtaking.arrival != way.last_passed:
                way.last_passed = overtaking.arrival
                way.passes += 1
                if head.is_overdue(self._bypass):
                    self._close(head, pool)

    def _close(self, reservation: Reservation, pool: Pool) -> None:
        if pool not in reservation.closing:
            reservation.closing += (pool,)
            pool.close(reservation)

    def _park(self, way: Way) -> None:
        if not way.line:
            for pool in way.sized:
                pool.sized_ways.discard(way)
            return
        for pool in way.sized:
            pool.sized_ways.add(way)
        head = way.head
        if head.blocked is not None and head.is_overdue(self._bypass):
            # It is the first since a moment ago, and was overtaken behind the one before it.
            self._close(head, head.blocked)
        full = [pool for pool in way.pools if pool.is_full]
        if not full:
            for pool in way.pools:
                pool.park(way)
        elif head.blocked in full:
            # Whoever waits on this way waits for this pool, and the first one missed its turn here last.
            head.blocked.park(way)
        else:
            full[0].park(way)

    def _unpark(self, way: Way) -> None:
        for pool in way.pools:
            pool.unpark(way)


def _oldest(pools: Sequence[Pool]) -> Way | None:
    """Return the way whose first message came first, of those parked at a pool that is not full."""
    found: Way | None = None
    for pool in pools:
        way = None if pool.is_full else pool.oldest()
        if way is not None and (found is None or way.head.arrival < found.head.arrival):
            found = way
    return found
