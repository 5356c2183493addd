"""What an application needs to test its limits and its own limit policies, without a database.

`InMemoryWorker` takes messages through their scopes as a worker does: intake, policies, limits, code. `RecordingPolicy`
is a policy that notes what happens to it, and fails where a test wants it to. `FakeClock` moves the event loop's time::

    worker = InMemoryWorker([in_memory_actor("resize", limits=ActorLimits(max_messages=3))])
    async with FakeClock() as clock:
        runs = [asyncio.create_task(worker.run(received("resize"), lambda: asyncio.sleep(10))) for _ in range(4)]
        await clock.advance(10)
        assert [run.done() for run in runs] == [True, True, True, False]

An app's own actors are taken with their scopes, and run as they are::

    worker = InMemoryWorker.of(app)
    assert (await worker.call(resize, width=3)).outcome == "ran"
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import Context
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from tidegate.errors import PolicyFailed
from tidegate.flow.backpressure import Transition
from tidegate.flow.flows import Flow
from tidegate.flow.intakes import Ask, Hold
from tidegate.flow.policies import LimitPolicyT, OnWait
from tidegate.flow.propagation import Propagation
from tidegate.flow.refusals import Refusal
from tidegate.flow.scopes import ActorScope, ChannelScope, RouterScope, WorkerScope, worker_limits
from tidegate.model.capacity import ActorLimits, MessageLimits
from tidegate.model.defaults import MAX_PAYLOAD_BYTES
from tidegate.model.fields import UNSET, Unset
from tidegate.model.messages import ReceivedMessage, ReceivedMessageT
from tidegate.routing.actors import ActorData
from tidegate.routing.channels import Channel
from tidegate.routing.handles import ActorHandle

if TYPE_CHECKING:
    from tidegate.app import App

_ids = count(1)


def received(
    actor: str, *, queue: str = "jobs", payload_bytes: int = 2, headers: Mapping[str, str] | None = None, **fields: Any
) -> ReceivedMessage:
    """Return a message as a worker would hold it, with an id of its own unless ``id=`` gives one."""
    fields.setdefault("id", next(_ids))
    return ReceivedMessage(actor=actor, queue=queue, payload_bytes=payload_bytes, headers=headers, **fields)


def in_memory_actor(
    name: str,
    *,
    channel: str = "jobs",
    router: RouterScope | None = None,
    limits: ActorLimits | None = None,
    limit_policies: tuple[LimitPolicyT, ...] = (),
) -> ActorScope:
    """Declare an actor for `InMemoryWorker`; actors of one router are given one ``RouterScope``."""
    data = ActorData(
        name=name,
        channel=Channel(channel),
        function=_nothing,
        limits=limits,
        limit_policies=limit_policies,
        router=router or RouterScope(),
    )
    return data.scope


def _nothing() -> None:
    """Stand in for an actor's function: `InMemoryWorker.run` is given the code to run."""


@dataclass(frozen=True, slots=True)
class MessageRun:
    """What became of a message.

    Attributes:
        outcome: ``ran``, or the action by which its size was refused.
        scope: who refused it.
        error: what a ``nack`` records.
    """

    outcome: Literal["ran", "nack", "reject"]
    scope: str | None = None
    error: str | None = None


class InMemoryWorker:
    """A worker without a database: messages come from `run`, each queue in the order of the calls.

    Args:
        actors: what it can run.
        channels: their channels, where those have limits or policies.
        limits: of the worker; ``MessageLimits(max_messages=1000)`` unless given.
        limit_policies: of the worker.
        propagation: as ``actor_limits_propagation``.

    Attributes:
        flow: its pools, as in a real worker.
        transitions: what backpressure did, in order. ``resubscribe`` gives nothing back here.
        failures: policies that failed; the first one ends intake.
    """

    def __init__(
        self,
        actors: Iterable[ActorScope],
        *,
        channels: Iterable[ChannelScope] = (),
        limits: MessageLimits | Unset = UNSET,
        limit_policies: tuple[LimitPolicyT, ...] = (),
        propagation: Propagation = "on",
    ) -> None:
        self.transitions: list[Transition] = []
        self.failures: list[PolicyFailed] = []
        self._heads: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._lines: defaultdict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._rooms: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.flow = Flow(
            worker=WorkerScope(limits=worker_limits(limits), limit_policies=limit_policies),
            channels=channels,
            actors=actors,
            events=self,
            propagation=propagation,
        )

    @classmethod
    def of(
        cls,
        app: App,
        *,
        limits: MessageLimits | Unset = UNSET,
        limit_policies: tuple[LimitPolicyT, ...] = (),
        propagation: Propagation = "on",
    ) -> InMemoryWorker:
        """Return a worker of an app's actors, with the limits and policies of their channels and routers."""
        actors = list(app.actors.values())
        return cls(
            [actor.scope for actor in actors],
            channels=[actor.channel.scope for actor in actors],
            limits=limits,
            limit_policies=limit_policies,
            propagation=propagation,
        )

    async def call(self, actor: ActorHandle[..., Any], /, **arguments: Any) -> MessageRun:
        """Run an actor's function with these arguments as a worker runs a job: checked, written as JSON, read back.

        Raises:
            InvalidPayload: the arguments do not fit the signature.
            PolicyFailed: as in `run`.
            BaseException: what the function raised, as it is.
        """
        data = actor.data
        payload = data.arguments.encode((), arguments, MAX_PAYLOAD_BYTES)

        async def code() -> None:
            bound = data.bind(payload)
            if data.is_async:
                await data.function(**bound)
            else:
                await asyncio.to_thread(data.function, **bound)

        return await self.run(received(data.name, queue=data.queue, payload_bytes=len(payload.encode())), code)

    async def run(self, message: ReceivedMessageT, code: Callable[[], Awaitable[object]]) -> MessageRun:
        """Take a message in when it fits, reserve what it needs, run the code, and give everything back.

        Raises:
            PolicyFailed: a policy raised in ``reserve``, or failed before, so that nothing is taken in any more.
            BaseException: what the code raised, as it is.
        """
        taken = await self._claim(message)
        if isinstance(taken, Refusal):
            return MessageRun(taken.action, taken.scope, taken.error)
        try:
            async with self.flow.execution.reserve(message, taken):
                await code()
        finally:
            taken.release()
        return MessageRun("ran")

    async def settle(self) -> None:
        """Wait until every lease of a custom policy is released."""
        await self.flow.execution.settle()

    def room(self, queue: str) -> None:
        """Called by the flow: see ``FlowEvents``."""
        self._rooms[queue].set()

    def changed(self, transition: Transition) -> None:
        """Called by the flow: see ``FlowEvents``."""
        self.transitions.append(transition)

    def failed(self, failure: PolicyFailed) -> None:
        """Called by the flow: see ``FlowEvents``."""
        self.failures.append(failure)
        for room in self._rooms.values():
            room.set()

    async def _claim(self, message: ReceivedMessageT) -> Hold | Refusal:
        """Do what claims do: each queue in order, and past messages whose actor has no room."""
        async with self._lines[message.queue, message.actor]:
            while True:
                async with self._heads[message.queue]:
                    taken = await self._claim_first(message)
                if taken is not None:
                    return taken
                await self._rooms[message.queue].wait()

    async def _claim_first(self, message: ReceivedMessageT) -> Hold | Refusal | None:
        """Wait until the first message of a queue fits, and take it; None where its actor has no room."""
        intake = self.flow.intake
        room = self._rooms[message.queue]
        while True:
            room.clear()
            if self.flow.failure is not None:
                raise self.flow.failure
            ask = intake.ask(message.queue)
            if ask is not None:
                if message.actor not in ask.actors:
                    return None
                if _brings(ask, message.payload_bytes):
                    return intake.take(ask, [message], None)[0]
                intake.take(ask, [], message.payload_bytes)
            try:
                await room.wait()
            except asyncio.CancelledError:
                intake.forget_cut(message.queue)
                raise


def _brings(ask: Ask, size: int) -> bool:
    if ask.budget is None or size <= ask.budget:
        return True
    fits_alone = ask.largest is None or size <= ask.largest
    return fits_alone or (ask.refused_above is not None and size > ask.refused_above)


class PolicyEvent(NamedTuple):
    """One thing that happened to a `RecordingPolicy`, and the id of the message that it was about."""

    what: Literal["reserve", "wait", "granted", "released", "cancelled"]
    message: int


class RecordingPolicy:
    """A limit policy that lets ``capacity`` messages pass at once and notes what happens.

    Args:
        capacity: messages at once; None for any number.
        fail_reserve: raised by ``reserve`` where given.
        fail_release: raised by ``release``, the capacity kept, where given.

    Attributes:
        events: everything, in order.
        running: ids of the messages that hold capacity.
    """

    def __init__(
        self,
        capacity: int | None = None,
        *,
        fail_reserve: BaseException | None = None,
        fail_release: BaseException | None = None,
    ) -> None:
        self.capacity = capacity
        self.fail_reserve = fail_reserve
        self.fail_release = fail_release
        self.events: list[PolicyEvent] = []
        self.running: list[int] = []
        self._changed = asyncio.Condition()

    def seen(self, what: str) -> list[int]:
        """Return the messages that one kind of thing happened to, in order."""
        return [event.message for event in self.events if event.what == what]

    async def reserve(
        self,
        message: ReceivedMessageT,
        _actor: ActorData,
        on_wait: OnWait,
    ) -> RecordedLease:
        """Let the message pass, or wait: see ``LimitPolicyT``."""
        self.events.append(PolicyEvent("reserve", message.id))
        if self.fail_reserve is not None:
            raise self.fail_reserve
        if not self._has_room():
            self.events.append(PolicyEvent("wait", message.id))
            try:
                await on_wait()
                async with self._changed:
                    await self._changed.wait_for(self._has_room)
                    return self._grant(message)
            except asyncio.CancelledError:
                self.events.append(PolicyEvent("cancelled", message.id))
                raise
        return self._grant(message)

    def _has_room(self) -> bool:
        return self.capacity is None or len(self.running) < self.capacity

    def _grant(self, message: ReceivedMessageT) -> RecordedLease:
        self.running.append(message.id)
        self.events.append(PolicyEvent("granted", message.id))
        return RecordedLease(self, message.id)

    async def give_back(self, message: int) -> None:
        """Take a message's capacity back; called by its lease."""
        if self.fail_release is not None:
            raise self.fail_release
        self.running.remove(message)
        self.events.append(PolicyEvent("released", message))
        async with self._changed:
            self._changed.notify_all()


class RecordedLease:
    """Capacity of a `RecordingPolicy` in the hands of one message."""

    def __init__(self, policy: RecordingPolicy, message: int) -> None:
        self._policy = policy
        self._message = message
        self._released = False

    async def release(self) -> None:
        """Give the capacity back; nothing the second time."""
        if not self._released:
            self._released = True
            await self._policy.give_back(self._message)


class FakeClock:
    """Makes the running event loop's time stand still until `advance` moves it: sleeps, timeouts, timers of all kinds.

    ``async with FakeClock() as clock:`` ends with the loop's own time again. What waits for a timer waits for
    `advance`, so a test that awaits such a thing itself would wait for ever. For code without input and output.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._calls = 0
        self._timers: list[float] = []

    async def __aenter__(self) -> Self:
        loop: Any = asyncio.get_running_loop()
        self._loop = loop
        self._now = loop.time()
        self._call_at, self._call_soon = loop.call_at, loop.call_soon
        # Attributes of the instance: they shadow the class's methods, and are gone when they are deleted.
        loop.time, loop.call_at, loop.call_soon = self.time, self._at, self._soon
        return self

    async def __aexit__(self, *_: object) -> None:
        del self._loop.time, self._loop.call_at, self._loop.call_soon

    def time(self) -> float:
        """Return the loop's time in seconds."""
        return self._now

    async def advance(self, seconds: float) -> None:
        """Move the time forward, timer by timer, and let everything run that is due, until nothing is left to do."""
        end = self._now + seconds
        await self._settle()
        while self._timers and self._timers[0] <= end:
            self._now = max(self._now, heappop(self._timers))
            await self._settle()
        self._now = end
        await self._settle()

    def _at(self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        heappush(self._timers, when)
        return self._call_at(when, callback, *args, context=context)

    def _soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        self._calls += 1
        return self._call_soon(callback, *args, context=context)

    async def _settle(self) -> None:
        """Let the loop turn until a turn makes no call but the one that ends our own wait."""
        quiet = 0
        while quiet < 2:  # timers that are due are called a turn after they were moved to those that are ready
            before = self._calls
            await asyncio.sleep(0)
            quiet = quiet + 1 if self._calls - before <= 1 else 0
