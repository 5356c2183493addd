"""Intake: what a claim may bring, and what is held from then on to the end of processing.

A worker calls `Intake.ask` before each claim, sends what it says, and hands the reply to `Intake.take`, one claim at a
time; of several queues that have reason to, the one first whose last claim is longest ago. The claim cuts in the
queue's order, so it never takes a job past one that does not fit. The size of the job at which it was cut comes back as
``cut``: the queue then asks again when that job fits, and queues that share its pools leave it the room, so that a
stream of small jobs in one queue does not starve a large one in another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from tidegate.flow.backpressure import Backpressure, FlowEvents
from tidegate.flow.plans import ChannelPlan, Passage, Plan
from tidegate.flow.pools import Pool
from tidegate.flow.refusals import Refusal, first_refusal
from tidegate.model.messages import ReceivedMessageT

MOST_AT_ONCE: Final = 500
"""Jobs in one claim, where nothing else says less."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What one claim may bring.

    Attributes:
        queue: where to claim.
        slots: jobs at most.
        actors: names of those that have room.
        rooms: jobs at most of each, in the order of ``actors``; None where nothing says less than ``slots``.
        budget: bytes of payloads at most, all jobs together; None for any.
        largest: a first job larger than the budget may come, alone, if it is not larger than this; None for any.
        refused_above: a first job larger than this may come alone whatever else is held: it is refused, never kept.
    """

    queue: str
    slots: int
    actors: tuple[str, ...]
    rooms: tuple[int, ...] | None
    budget: int | None
    largest: int | None
    refused_above: int | None


class Hold:
    """Capacity of worker and channel in the hands of one message, from its claim to the end of its processing."""

    __slots__ = ("_intake", "_over", "passage", "plan", "size")

    def __init__(self, intake: Intake, plan: ChannelPlan, passage: Passage, size: int) -> None:
        self._intake = intake
        self._over = False
        self.plan = plan
        self.passage = passage
        self.size = size

    def release(self) -> None:
        """Give the capacity back, when the payload is no longer in memory; nothing the second time."""
        if not self._over:
            self._over = True
            self._intake.let_go(self)


class Intake:
    """Counts what is held, and says what else would fit.

    Args:
        plan: pools and channels.
        backpressure: closes channels.
        events: told of queues that may ask again.
    """

    def __init__(self, plan: Plan, backpressure: Backpressure, events: FlowEvents) -> None:
        self._plan = plan
        self._backpressure = backpressure
        self._events = events
        self._actors = tuple(plan.actors)
        self._pools_of = {name: plan.pools_of(actor) for name, actor in plan.actors.items()}
        self._unbounded = not any(self._pools_of.values())
        self._expected: dict[Pool, Pool] = {}
        """For each pool of execution, what is held that passes it, waiting or running."""
        for pool in {pool for pools in self._pools_of.values() for pool in pools}:
            self._expected[pool] = Pool(pool.name, pool.max_messages, pool.max_bytes)
        self._cuts: dict[str, int] = {}
        """By queue, longest first: bytes of the job that did not fit."""
        self._watched: dict[Pool, set[str]] = {}
        """Queues that asked in vain for room in a pool."""
        self._held_back: set[str] = set()
        """Queues that asked in vain because an older cut of another one comes first."""

    def ask(self, queue: str, *, hinted: bool = False) -> Ask | None:
        """Return what a claim of the queue may bring; None for no claim now, in which case `FlowEvents.room` follows.

        Args:
            queue: where to claim.
            hinted: somebody said that there is work since the last claim, so another job may stand first by now.
        """
        if self._backpressure.is_closed(queue):
            return None
        plan = self._plan.channel(queue)
        own = None if hinted else self._cuts.get(queue)
        promised = self._promised(plan)
        slots = float(MOST_AT_ONCE)
        for pool in plan.pools:
            free = pool.free_messages - promised[pool][0]
            if free < 1 or (own is not None and not _fits(pool, own, promised[pool][1])):
                self._refuse(plan, pool, own or 0)
                return None
            slots = min(slots, free)
        budget, largest = inf, inf
        for pool in plan.sized:
            free = pool.free_bytes - promised[pool][1]
            if free <= 0:
                self._refuse(plan, pool, 0)
                return None
            budget = min(budget, free)
            if pool.messages or promised[pool][1]:
                largest = min(largest, free)
        rooms = self._rooms(plan, int(slots))
        if rooms is not None and not rooms:
            return None
        return Ask(
            queue=queue,
            slots=int(slots),
            actors=self._actors if rooms is None else tuple(rooms),
            rooms=None if rooms is None else tuple(rooms.values()),
            budget=None if budget == inf else int(budget),
            largest=None if largest == inf else int(largest),
            refused_above=plan.refused_above,
        )

    def take(self, ask: Ask, messages: Sequence[ReceivedMessageT], cut: int | None) -> list[Hold | Refusal]:
        """Count in what a claim brought, and say what is refused, message by message.

        A refused message is never held: nothing is reserved for it, and its payload must be dropped.

        Args:
            ask: what was asked.
            messages: what came.
            cut: bytes of the job at which the claim ended because it did not fit; None where bytes ended nothing.
        """
        plan = self._plan.channel(ask.queue)
        taken = [self._admit(plan, message) for message in messages]
        if messages or cut is None:
            self.forget_cut(ask.queue)
        if ask.rooms is not None:
            came = Counter(message.actor for message in messages)
            for actor, room in zip(ask.actors, ask.rooms, strict=True):
                if came[actor] >= room < ask.slots:
                    self._watch_rooms(actor, ask.queue)
                    if self._room_of(actor) > 0:
                        # Somebody left while the claim was on its way, before anybody watched.
                        self._events.room(ask.queue)
        for pool in plan.pools:
            if pool.is_full or pool.free_bytes <= 0:
                self._refuse(plan, pool, 0)
        if any(isinstance(each, Refusal) for each in taken):
            # It came alone and takes no room: what stands behind it was not looked at.
            self._events.room(ask.queue)
        if cut is not None:
            self._note_cut(plan, cut)
        return taken

    def let_go(self, hold: Hold) -> None:
        """Count a message out; see `Hold.release`."""
        for pool in hold.plan.pools:
            pool.give(hold.size)
        for pool in hold.passage.way.pools:
            self._expected[pool].give(hold.size)
        self._backpressure.freed(hold.plan.pools)
        if self._watched:
            for pool in (*hold.plan.pools, *hold.passage.way.pools):
                for queue in self._watched.pop(pool, ()):
                    self._events.room(queue)

    def _admit(self, plan: ChannelPlan, message: ReceivedMessageT) -> Hold | Refusal:
        passage = self._plan.passage(plan.queue, message.actor)
        size = message.payload_bytes
        if size > passage.oversized_above:
            refusal = first_refusal(message, passage.scopes)
            if refusal is not None:
                return refusal
        for pool in plan.pools:
            pool.take(size)
        for pool in passage.way.pools:
            self._expected[pool].take(size)
        return Hold(self, plan, passage, size)

    def _note_cut(self, plan: ChannelPlan, cut: int) -> None:
        blocked = None
        if plan.refused_above is None or cut <= plan.refused_above:
            self._cuts[plan.queue] = cut  # one that was cut in vain keeps its age
            blocked = next((pool for pool in plan.sized if not pool.fits(cut)), None)
        if blocked is None:
            # It is refused whatever is held, or fits since something ended during the claim.
            self._events.room(plan.queue)
        else:
            self._refuse(plan, blocked, cut)

    def _promised(self, plan: ChannelPlan) -> dict[Pool, tuple[int, int]]:
        """What older cuts of other queues have a right to: messages and bytes by pool of this queue."""
        promised = dict.fromkeys(plan.pools, (0, 0))
        for queue, size in self._cuts.items():
            if queue == plan.queue:
                break
            other = self._plan.channel(queue).sized
            if self._backpressure.is_closed(queue) or not all(pool in promised or pool.fits(size) for pool in other):
                # It waits for a pool that this queue does not share: its own jobs must end first.
                continue
            for pool in other:
                if pool in promised:
                    messages, total = promised[pool]
                    promised[pool] = messages + 1, total + size
                    self._held_back.add(plan.queue)
        return promised

    def _rooms(self, plan: ChannelPlan, slots: int) -> dict[str, int] | None:
        """Room by actor, without those that have none; None where no actor has less than all slots."""
        if self._unbounded or not plan.asks_rooms:
            return None
        rooms: dict[str, int] = {}
        for actor in self._pools_of:
            room = min(slots, self._room_of(actor))
            if room > 0:
                rooms[actor] = int(room)
            else:
                self._watch_rooms(actor, plan.queue)
        return None if len(rooms) == len(self._actors) and all(room == slots for room in rooms.values()) else rooms

    def _room_of(self, actor: str) -> float:
        """How many more messages of an actor can be on their way; infinite where they are not counted."""
        room = inf
        for pool in self._pools_of[actor]:
            expected = self._expected[pool]
            room = min(room, expected.free_messages if expected.free_bytes > 0 else 0)
        return room

    def _watch_rooms(self, actor: str, queue: str) -> None:
        for pool in self._pools_of[actor]:
            self._watched.setdefault(pool, set()).add(queue)

    def _refuse(self, plan: ChannelPlan, pool: Pool, needs: int) -> None:
        if pool.free_bytes > 0 and pool.fits(needs):
            return  # its room is promised to another queue, after whose claim this one is told
        self._watched.setdefault(pool, set()).add(plan.queue)
        self._backpressure.filled(plan, pool, needs)

    def forget_cut(self, queue: str) -> None:
        """Keep no room any more for the job at which a claim of the queue was cut: it was taken, or is gone."""
        if self._cuts.pop(queue, None) is not None:
            self.reconsider()

    def reconsider(self) -> None:
        """Let queues ask again that left their room to another one, which has it now or was paused."""
        held_back, self._held_back = self._held_back, set()
        for queue in held_back:
            self._events.room(queue)


def _fits(pool: Pool, size: int, promised: int) -> bool:
    return pool.fits(size) if not promised else pool.free_bytes - promised >= size
