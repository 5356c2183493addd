"""What is declared at the four scopes of a message: worker, channel, router, actor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.errors import ConfigurationError
from tidegate.flow.policies import LimitPolicyT
from tidegate.flow.propagation import Propagation
from tidegate.model.capacity import ActorLimits, MessageLimits, check_message_limits
from tidegate.model.defaults import MAX_MESSAGES, MAX_SLOTS
from tidegate.model.fields import UNSET, Unset, is_integer

if TYPE_CHECKING:
    from tidegate.routing.actors import ActorData


@dataclass(frozen=True, kw_only=True, eq=False)
class WorkerScope:
    """The whole process. ``limits`` is never None: no limit is ``MessageLimits()``."""

    limits: MessageLimits
    limit_policies: tuple[LimitPolicyT, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class ChannelScope:
    """What is taken in from one queue."""

    address: str
    limits: MessageLimits | None = None
    limit_policies: tuple[LimitPolicyT, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class RouterScope:
    """Actors declared together; one object of this class for each router."""

    limits: ActorLimits | None = None
    limit_policies: tuple[LimitPolicyT, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class ActorScope:
    """One actor, with the router it was declared in. ``data`` is what policies are handed."""

    name: str
    channel: str
    data: ActorData
    router: RouterScope
    limits: ActorLimits | None = None
    limit_policies: tuple[LimitPolicyT, ...] = ()

    @property
    def path(self) -> tuple[ActorLimits, ...]:
        """The limits that its messages pass, the router's first."""
        return tuple(limits for limits in (self.router.limits, self.limits) if limits is not None)


@dataclass(frozen=True, kw_only=True, eq=False)
class Scopes:
    """Everything that is declared about one worker's capacity.

    Attributes:
        worker: the process.
        channels: those of its actors; several of one address are one.
        actors: all that it can run.
        propagation: ``actor_limits_propagation``.
    """

    worker: WorkerScope
    channels: tuple[ChannelScope, ...]
    actors: tuple[ActorScope, ...]
    propagation: Propagation = "on"


def worker_limits(
    limits: object = UNSET, slots: int | Unset = UNSET, max_payload_bytes: int | None = None
) -> MessageLimits:
    """Return the limits of a worker from the arguments of ``run_worker``, ``Worker`` and the command.

    ``slots=n`` is short for ``limits=MessageLimits(max_messages=n)``; with neither a worker takes in `MAX_MESSAGES`.
    The command has no ``limits``, so ``max_payload_bytes`` goes with its slots.

    Raises:
        InvalidType: ``limits`` is no ``MessageLimits``; None is not "no limit".
        InvalidCapacity: ``max_payload_bytes`` is not positive.
        ConfigurationError: both are given, or ``slots`` is out of bounds.
    """
    if limits is not UNSET and slots is not UNSET:
        raise ConfigurationError(
            "slots and limits both say how much the worker takes in; give one: slots=8 is short for "
            "limits=MessageLimits(max_messages=8)"
        )
    if limits is not UNSET:
        return check_message_limits(limits, "limits")
    if isinstance(slots, Unset):
        return MessageLimits(max_messages=MAX_MESSAGES)
    if not is_integer(slots) or not 1 <= slots <= MAX_SLOTS:
        raise ConfigurationError(f"slots must be an integer from 1 to {MAX_SLOTS}; got {slots!r}")
    return MessageLimits(max_messages=slots, max_payload_bytes=max_payload_bytes)


def one_for_each_address(channels: Iterable[ChannelScope]) -> dict[str, ChannelScope]:
    """Return the channels by address. Those that say nothing of limits or policies take what others of theirs say.

    Raises:
        ConfigurationError: two channels of one address have different limits, or different policies.
    """
    merged: dict[str, ChannelScope] = {}
    for channel in channels:
        present = merged.get(channel.address)
        if present is None:
            merged[channel.address] = channel
            continue
        limits = present.limits or channel.limits
        policies = present.limit_policies or channel.limit_policies
        if channel.limits not in {None, limits}:
            _refuse(channel.address, "limits", present.limits, channel.limits)
        if channel.limit_policies and list(map(id, channel.limit_policies)) != list(map(id, policies)):
            _refuse(channel.address, "limit_policies", present.limit_policies, channel.limit_policies)
        merged[channel.address] = ChannelScope(address=channel.address, limits=limits, limit_policies=policies)
    return merged


def _refuse(address: str, field: str, one: object, other: object) -> None:
    raise ConfigurationError(
        f"two channels for {address!r} have different {field}: {one!r} and {other!r}; "
        "two objects are two pools even if they are equal, so make one Channel and give it to every actor of that queue"
    )
