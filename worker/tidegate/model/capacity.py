"""Limits of one worker process: what a scope may hold at once. The rules are those of ``docs/limits.md``.

``MessageLimits`` (worker, channel) bounds what is taken in, from claim to outcome; ``ActorLimits`` (router, actor) what
runs. Both compare by identity: one object at two places is one pool, two objects of the same numbers are two pools.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from tidegate.errors import InvalidCapacity, InvalidType
from tidegate.model.defaults import RESUME_AT
from tidegate.model.fields import is_integer
from tidegate.model.messages import ReceivedMessageT

OversizedPayloadAction: TypeAlias = Literal["run_alone", "nack", "reject"]
"""What happens to a message whose payload alone is larger than ``max_payload_bytes``: it runs with nothing beside it in
that pool; it fails an attempt; or it goes back to its queue, the attempt not spent."""

OnOversizedPayloadT: TypeAlias = OversizedPayloadAction | Callable[[ReceivedMessageT], OversizedPayloadAction]
"""An action, or a synchronous function that chooses one for a message."""

BackpressureStrategy: TypeAlias = Literal["native", "channel_pause", "worker_pause", "resubscribe"]
"""How intake is held back while messages wait for capacity: claims ask only for what fits; the channel pauses; the
worker pauses; or it also gives back what has not started, and stops listening until it resumes."""

OnUnavailable: TypeAlias = Literal["buffer", "error"]
"""What no usable strategy means: messages wait within the intake limits, or the worker refuses to start."""

ACTIONS: Final[tuple[str, ...]] = get_args(OversizedPayloadAction)
STRATEGIES: Final[tuple[str, ...]] = get_args(BackpressureStrategy)
_ON_UNAVAILABLE: Final[tuple[str, ...]] = get_args(OnUnavailable)


@dataclass(frozen=True, kw_only=True)
class BackpressurePolicy:
    """How intake reacts while messages wait for capacity.

    Attributes:
        strategies: tried in this order; the first that can handle the wait does. None at all: messages wait within the
            intake limits.
        on_unavailable: ``buffer`` or ``error``, where no strategy can handle a wait that may occur.
        resume_at: share of the limit, 0 to 1, to which the use of the pool that was waited for must fall before intake
            that was paused goes on. Without effect while claims are native.

    Raises:
        InvalidType: a value is of the wrong type (a ``TypeError``).
        InvalidCapacity: a value is unknown or out of bounds (a ``ValueError``).
    """

    strategies: tuple[BackpressureStrategy, ...] = ("native", "channel_pause", "worker_pause")
    on_unavailable: OnUnavailable = "buffer"
    resume_at: float = RESUME_AT

    def __post_init__(self) -> None:
        given: object = self.strategies
        if not isinstance(given, tuple | list):
            raise InvalidType("strategies", f'must be a tuple, as in ("native",); got {type(given).__name__}')
        object.__setattr__(self, "strategies", tuple(given))
        for strategy in self.strategies:
            _check_word(strategy, "strategies", STRATEGIES)
        if len(set(self.strategies)) < len(self.strategies):
            raise InvalidCapacity("strategies", f"must name each strategy once; got {self.strategies!r}")
        _check_word(self.on_unavailable, "on_unavailable", _ON_UNAVAILABLE)
        share: object = self.resume_at
        if isinstance(share, bool) or not isinstance(share, int | float):
            raise InvalidType("resume_at", f"must be a number from 0 to 1; got {type(share).__name__}")
        if math.isnan(share) or not 0 <= share <= 1:
            raise InvalidCapacity("resume_at", f"must be a number from 0 to 1; got {share}")


@dataclass(frozen=True, kw_only=True, eq=False)
class MessageLimits:
    """What a worker or a channel takes in at once, from claim to outcome. Compared by identity: an object is a pool.

    Attributes:
        max_messages: messages held at once, positive; None for any number.
        max_payload_bytes: bytes of payloads held at once, as JSON text, positive; None for any. Parsed objects may need
            more memory.
        on_oversized_payload: what happens to a payload that alone is larger.
        backpressure: how intake reacts while messages wait; None takes the worker's.

    Raises:
        InvalidType: a value is of the wrong type (a ``TypeError``); bools, floats and texts are no integers.
        InvalidCapacity: a value is zero, negative or unknown (a ``ValueError``).
    """

    max_messages: int | None = None
    max_payload_bytes: int | None = None
    on_oversized_payload: OnOversizedPayloadT = "run_alone"
    backpressure: BackpressurePolicy | None = None

    def __post_init__(self) -> None:
        _check_capacity(self)
        if not isinstance(self.backpressure, BackpressurePolicy | None):
            raise InvalidType(
                "backpressure", f"must be a BackpressurePolicy or None; got {type(self.backpressure).__name__}"
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class ActorLimits:
    """What runs at once of an actor, or of a router's actors together. Compared by identity: an object is a pool.

    Attributes:
        max_messages: messages that run at once, positive; None for any number.
        max_payload_bytes: bytes of their payloads, as JSON text, positive; None for any.
        on_oversized_payload: what happens to a payload that alone is larger.

    Raises:
        InvalidType: a value is of the wrong type (a ``TypeError``); bools, floats and texts are no integers.
        InvalidCapacity: a value is zero, negative or unknown (a ``ValueError``).
    """

    max_messages: int | None = None
    max_payload_bytes: int | None = None
    on_oversized_payload: OnOversizedPayloadT = "run_alone"

    def __post_init__(self) -> None:
        _check_capacity(self)


def check_message_limits(value: object, field: str) -> MessageLimits:
    """Return the limits of a worker or channel; raises ``InvalidType`` for anything else, None and ``ActorLimits``."""
    if not isinstance(value, MessageLimits):
        got = "; MessageLimits() is no limit, None is not" if value is None else f"; got {type(value).__name__}"
        raise InvalidType(field, f"must be MessageLimits(...){got}")
    return value


def check_actor_limits(value: object, field: str) -> ActorLimits:
    """Return the limits of a router or actor; raises ``InvalidType`` for anything else."""
    if not isinstance(value, ActorLimits):
        raise InvalidType(field, f"must be ActorLimits(...); got {type(value).__name__}")
    return value


def _check_capacity(limits: MessageLimits | ActorLimits) -> None:
    for field in ("max_messages", "max_payload_bytes"):
        value = getattr(limits, field)
        if value is None:
            continue
        if not is_integer(value):
            raise InvalidType(field, f"must be a positive integer, or None for no limit; got {type(value).__name__}")
        if value < 1:
            raise InvalidCapacity(field, f"must be a positive integer, or None for no limit; got {value}")
    action: object = limits.on_oversized_payload
    if isinstance(action, str):
        _check_word(action, "on_oversized_payload", ACTIONS)
    elif not callable(action) or isinstance(action, type):
        raise InvalidType(
            "on_oversized_payload",
            f"must be {_one_of(ACTIONS)}, or a function of the message; got {_described(action)}",
        )
    elif inspect.iscoroutinefunction(action) or inspect.iscoroutinefunction(type(action).__call__):
        raise InvalidType(
            "on_oversized_payload", "must be a plain function, not async: it decides before anything waits"
        )


def _check_word(value: object, field: str, words: tuple[str, ...]) -> None:
    if not isinstance(value, str):
        raise InvalidType(field, f"must be {_one_of(words)}; got {_described(value)}")
    if value not in words:
        raise InvalidCapacity(field, f"must be {_one_of(words)}; got {value!r}")


def _one_of(words: tuple[str, ...]) -> str:
    return f"{', '.join(map(repr, words[:-1]))} or {words[-1]!r}"


def _described(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
