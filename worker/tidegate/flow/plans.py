"""What follows from the declared scopes: pools, the way of each message, and how each channel reacts to waits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import inf

from tidegate.errors import ConfigurationError
from tidegate.flow.policies import LimitPolicyT, distinct, policy_name
from tidegate.flow.pools import Pool
from tidegate.flow.propagation import Propagation, byte_cap, message_cap
from tidegate.flow.refusals import SizedScope
from tidegate.flow.reservations import Way
from tidegate.flow.scopes import ActorScope, ChannelScope, WorkerScope, one_for_each_address
from tidegate.model.capacity import ActorLimits, BackpressurePolicy, BackpressureStrategy, MessageLimits


@dataclass(frozen=True, kw_only=True, eq=False)
class ChannelPlan:
    """One queue's intake.

    Attributes:
        queue: the channel's address.
        pools: those of worker and channel, and the cap that follows from the limits of actors; each once.
        policy: how intake reacts while messages wait.
        on_pool: the strategy for messages that wait for a router's or an actor's pool; None holds them.
        on_policy: the strategy for messages that wait in a custom policy; None holds them.
        on_intake: the strategy where worker or channel hold all they may; ``native`` and None ask for less.
        asks_rooms: claims name only actors that have room, and how much.
        refused_above: payloads larger than this are surely refused; None where none is.
    """

    queue: str
    pools: tuple[Pool, ...]
    policy: BackpressurePolicy
    on_pool: BackpressureStrategy | None
    on_policy: BackpressureStrategy | None
    on_intake: BackpressureStrategy | None
    asks_rooms: bool
    refused_above: int | None

    @cached_property
    def sized(self) -> tuple[Pool, ...]:
        """The pools that count bytes."""
        return tuple(pool for pool in self.pools if pool.max_bytes is not None)


@dataclass(frozen=True, kw_only=True, eq=False)
class Passage:
    """The way of one actor's messages from one queue.

    Attributes:
        actor: the actor.
        policies: custom ones, each once, in an order that is the same for all messages: no two can wait for each other.
        way: the pools of actor and router.
        scopes: those with a byte budget, in the order worker, channel, router, actor; one object once.
        oversized_above: the smallest of their budgets; infinite where there is none.
    """

    actor: ActorScope
    policies: tuple[LimitPolicyT, ...]
    way: Way
    scopes: tuple[SizedScope, ...]
    oversized_above: float


class Plan:
    """Everything that is known before the first claim.

    Args:
        worker: the process.
        channels: those of the actors; several of one address are merged.
        actors: all actors of the app. Any queue may bring jobs of any of them.
        propagation: whether limits of actors bound what is taken in.

    Raises:
        ConfigurationError: two channels of one address contradict each other, or a policy of ``on_unavailable="error"``
            has no strategy for a wait that may occur.
    """

    def __init__(
        self,
        worker: WorkerScope,
        channels: Iterable[ChannelScope],
        actors: Iterable[ActorScope],
        propagation: Propagation = "on",
    ) -> None:
        self._worker = worker
        self._scopes = one_for_each_address(channels)
        self.actors = {actor.name: actor for actor in actors}
        self._propagation = propagation
        self._execution = _execution_pools(self.actors.values())
        self._intake = _intake_pools(worker, self._scopes.values())
        self._ways: dict[tuple[Pool, ...], Way] = {}
        self._channels: dict[str, ChannelPlan] = {}
        self._passages: dict[tuple[str, str], Passage] = {}
        self._ranks: dict[int, int] = {}
        self._rank(worker.limit_policies)
        self._rank(policy for scope in self._scopes.values() for policy in scope.limit_policies)
        self._rank(policy for actor in self.actors.values() for policy in actor.router.limit_policies)
        self._rank(policy for actor in self.actors.values() for policy in actor.limit_policies)
        for queue in dict.fromkeys([*self._scopes, *(actor.channel for actor in self.actors.values())]):
            self._refuse_unavailable(self.channel(queue))

    @property
    def pools(self) -> tuple[Pool, ...]:
        """Every pool that limits something: those of worker, channels, routers and actors."""
        caps = (pool for plan in self._channels.values() for pool in plan.pools)
        return tuple(dict.fromkeys([*self._intake.values(), *caps, *self._execution.values()]))

    def most_messages(self, queues: Iterable[str]) -> int | None:
        """Return how many messages of these queues can be held at once, all together; None for any number."""
        worker = self._worker.limits.max_messages
        bounds = [[pool.max_messages or inf for pool in self.channel(queue).pools] for queue in set(queues)]
        most = min(worker or inf, sum(min(each, default=inf) for each in bounds))
        return None if most == inf else int(most)

    def channel(self, queue: str) -> ChannelPlan:
        """Return the plan of a queue; one that no channel declares has the worker's limits alone."""
        plan = self._channels.get(queue)
        if plan is None:
            plan = self._channels[queue] = self._plan(queue)
        return plan

    def passage(self, queue: str, actor: str) -> Passage:
        """Return the way of an actor's messages from a queue."""
        passage = self._passages.get((queue, actor))
        if passage is None:
            passage = self._passages[queue, actor] = self._pass(queue, self.actors[actor])
        return passage

    def pools_of(self, actor: ActorScope) -> tuple[Pool, ...]:
        """Return the pools that an actor's messages pass, the actor's own first."""
        return distinct(self._execution[limits] for limits in reversed(actor.path) if limits in self._execution)

    def _scope(self, queue: str) -> ChannelScope:
        return self._scopes.get(queue) or ChannelScope(address=queue)

    def _plan(self, queue: str) -> ChannelPlan:
        scope = self._scope(queue)
        limits = distinct(limits for limits in (self._worker.limits, scope.limits) if limits is not None)
        pools = [self._intake[each] for each in limits if each in self._intake]
        own = None if scope.limits is None else scope.limits.backpressure
        policy = own or self._worker.limits.backpressure or BackpressurePolicy()
        # What bounds deliveries: rooms and caps while they are asked for, else the limits of worker and channel.
        on_pool = strategy_for(policy, native=self._propagation == "on" or bool(pools))
        asks_rooms = self._propagation == "on" and on_pool == "native"
        if asks_rooms:
            pools += _cap(queue, [actor.path for actor in self.actors.values() if actor.channel == queue])
        return ChannelPlan(
            queue=queue,
            pools=tuple(pools),
            policy=policy,
            on_pool=on_pool,
            on_policy=strategy_for(policy, native=False),
            on_intake=strategy_for(policy, native=True),
            asks_rooms=asks_rooms,
            refused_above=min(
                (
                    each.max_payload_bytes
                    for each in limits
                    if each.max_payload_bytes is not None and each.on_oversized_payload in ("nack", "reject")
                ),
                default=None,
            ),
        )

    def _pass(self, queue: str, actor: ActorScope) -> Passage:
        channel = self._scope(queue)
        policies = distinct(
            policy for scope in (self._worker, channel, actor.router, actor) for policy in scope.limit_policies
        )
        pools = self.pools_of(actor)
        named: list[tuple[str, MessageLimits | ActorLimits | None]] = [
            ("the worker", self._worker.limits),
            (f"channel {queue!r}", channel.limits),
            (f"the router of {actor.name!r}", actor.router.limits),
            (f"actor {actor.name!r}", actor.limits),
        ]
        sized: dict[MessageLimits | ActorLimits, SizedScope] = {}
        for name, limits in named:
            if limits is not None and limits.max_payload_bytes is not None:
                sized.setdefault(limits, SizedScope(name, limits))
        return Passage(
            actor=actor,
            policies=tuple(sorted(policies, key=lambda policy: self._ranks[id(policy)])),
            way=self._ways.setdefault(pools, Way(pools)),
            scopes=tuple(sized.values()),
            oversized_above=min((limits.max_payload_bytes or inf for limits in sized), default=inf),
        )

    def _rank(self, policies: Iterable[LimitPolicyT]) -> None:
        for policy in policies:
            self._ranks.setdefault(id(policy), len(self._ranks))

    def _refuse_unavailable(self, plan: ChannelPlan) -> None:
        if plan.policy.on_unavailable != "error":
            return
        for actor in self.actors.values():
            if actor.channel != plan.queue:
                continue
            passage = self.passage(plan.queue, actor.name)
            if plan.on_pool is None and passage.way.pools:
                _refuse(plan, f"the limits of {passage.way.pools[0].name}")
            if plan.on_policy is None and passage.policies:
                _refuse(plan, f"limit policy {policy_name(passage.policies[0])} of actor {actor.name!r}")


def strategy_for(policy: BackpressurePolicy, *, native: bool) -> BackpressureStrategy | None:
    """Return the first strategy that can handle a wait: claims can always stop, but not always ask for less."""
    return next((strategy for strategy in policy.strategies if strategy != "native" or native), None)


def _cap(queue: str, paths: list[tuple[ActorLimits, ...]]) -> list[Pool]:
    messages, size = (message_cap(paths), byte_cap(paths)) if paths else (None, None)
    return [] if messages is None and size is None else [Pool(f"the actors of channel {queue!r}", messages, size)]


def _execution_pools(actors: Iterable[ActorScope]) -> dict[ActorLimits, Pool]:
    names: dict[ActorLimits, list[str]] = {}
    for actor in actors:
        if actor.router.limits is not None:
            names.setdefault(actor.router.limits, []).append(f"the router of {actor.name!r}")
        if actor.limits is not None:
            names.setdefault(actor.limits, []).append(f"actor {actor.name!r}")
    return {limits: _pool(limits, sharers) for limits, sharers in names.items() if _limits_something(limits)}


def _intake_pools(worker: WorkerScope, channels: Iterable[ChannelScope]) -> dict[MessageLimits, Pool]:
    names: dict[MessageLimits, list[str]] = {worker.limits: ["the worker"]}
    for channel in channels:
        if channel.limits is not None:
            names.setdefault(channel.limits, []).append(f"channel {channel.address!r}")
    return {limits: _pool(limits, sharers) for limits, sharers in names.items() if _limits_something(limits)}


def _pool(limits: MessageLimits | ActorLimits, sharers: list[str]) -> Pool:
    return Pool(", ".join(dict.fromkeys(sharers)), limits.max_messages, limits.max_payload_bytes)


def _limits_something(limits: MessageLimits | ActorLimits) -> bool:
    return limits.max_messages is not None or limits.max_payload_bytes is not None


def _refuse(plan: ChannelPlan, waits_for: str) -> None:
    raise ConfigurationError(
        f"channel {plan.queue!r} demands backpressure (on_unavailable='error'), but none of the strategies "
        f"{plan.policy.strategies!r} can handle messages that wait for {waits_for}; add 'channel_pause' or "
        "'worker_pause', or set on_unavailable='buffer'"
    )
