"""Limits of a worker process: what may be written, and that an object is a pool."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from functools import partial
from typing import Any

import pytest

from tidegate.errors import InvalidCapacity, InvalidType, TidegateError
from tidegate.model.capacity import (
    ActorLimits,
    BackpressurePolicy,
    MessageLimits,
    OversizedPayloadAction,
    check_actor_limits,
    check_message_limits,
)
from tidegate.model.messages import ReceivedMessage, ReceivedMessageT

BOTH = pytest.mark.parametrize("kind", [MessageLimits, ActorLimits])
FIELDS = pytest.mark.parametrize("field", ["max_messages", "max_payload_bytes"])


def choose(message: ReceivedMessageT) -> OversizedPayloadAction:
    return "nack"


async def choose_later(message: ReceivedMessageT) -> OversizedPayloadAction:
    return "nack"


class Chooser:
    def __call__(self, _: ReceivedMessageT) -> OversizedPayloadAction:
        return "reject"


class LateChooser:
    async def __call__(self, _: ReceivedMessageT) -> OversizedPayloadAction:
        return "reject"


@BOTH
def test_defaults_limit_nothing(kind: type[Any]) -> None:
    limits = kind()
    assert (limits.max_messages, limits.max_payload_bytes, limits.on_oversized_payload) == (None, None, "run_alone")
    assert MessageLimits().backpressure is None
    assert not hasattr(ActorLimits(), "backpressure")


@BOTH
@FIELDS
@pytest.mark.parametrize("value", [True, False, 1.0, "1", b"1", [1], 1j])
def test_what_is_no_integer_is_a_type_error(kind: type[Any], field: str, value: object) -> None:
    with pytest.raises(TypeError, match=rf"^{field} must be a positive integer") as raised:
        kind(**{field: value})
    assert isinstance(raised.value, InvalidType | TidegateError)
    assert not isinstance(raised.value, ValueError)


@BOTH
@FIELDS
@pytest.mark.parametrize("value", [0, -1, -(10**20)])
def test_what_is_not_positive_is_a_value_error(kind: type[Any], field: str, value: int) -> None:
    with pytest.raises(ValueError, match=rf"^{field} must be a positive integer.*got {value}") as raised:
        kind(**{field: value})
    assert isinstance(raised.value, InvalidCapacity)


@BOTH
@FIELDS
@pytest.mark.parametrize("value", [None, 1, 10**20])
def test_legal_numbers(kind: type[Any], field: str, value: int | None) -> None:
    assert getattr(kind(**{field: value}), field) == value


@BOTH
@pytest.mark.parametrize(
    "action", ["run_alone", "nack", "reject", choose, Chooser(), partial(choose), lambda _: "nack"]
)
def test_legal_actions(kind: type[Any], action: object) -> None:
    assert kind(on_oversized_payload=action).on_oversized_payload is action


@BOTH
@pytest.mark.parametrize(
    ("action", "error"),
    [
        ("RUN_ALONE", ValueError),
        ("", ValueError),
        (None, TypeError),
        (1, TypeError),
        (Chooser, TypeError),
        (choose_later, TypeError),
        (LateChooser(), TypeError),
        (partial(choose_later), TypeError),
    ],
)
def test_illegal_actions(kind: type[Any], action: object, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^on_oversized_payload must be"):
        kind(on_oversized_payload=action)


@BOTH
def test_an_object_is_a_pool(kind: type[Any]) -> None:
    one, other = kind(max_messages=1), kind(max_messages=1)
    assert one != other
    assert len({one, other, one}) == 2
    with pytest.raises(FrozenInstanceError):
        one.max_messages = 2
    with pytest.raises(TypeError):
        kind(1)


def test_backpressure_of_limits_is_a_policy() -> None:
    policy = BackpressurePolicy()
    assert MessageLimits(backpressure=policy).backpressure is policy
    with pytest.raises(TypeError, match=r"^backpressure must be a BackpressurePolicy or None; got str"):
        MessageLimits(backpressure="native")  # type: ignore[arg-type]


def test_backpressure_defaults() -> None:
    policy = BackpressurePolicy()
    assert policy.strategies == ("native", "channel_pause", "worker_pause")
    assert (policy.on_unavailable, policy.resume_at) == ("buffer", 0.75)
    assert policy == BackpressurePolicy()


@pytest.mark.parametrize(
    "given",
    [
        {"strategies": ()},
        {"strategies": ("resubscribe",)},
        {"strategies": ["worker_pause", "native"]},
        {"on_unavailable": "error"},
        {"resume_at": 0},
        {"resume_at": 1},
        {"resume_at": 0.5},
    ],
)
def test_legal_backpressure(given: dict[str, Any]) -> None:
    policy = BackpressurePolicy(**given)
    for field, value in given.items():
        assert getattr(policy, field) == (tuple(value) if isinstance(value, list) else value)
    assert isinstance(policy.strategies, tuple)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"strategies": "native"}, TypeError),
        ({"strategies": None}, TypeError),
        ({"strategies": {"native"}}, TypeError),
        ({"strategies": ("natural",)}, ValueError),
        ({"strategies": (1,)}, TypeError),
        ({"strategies": (["native"],)}, TypeError),
        ({"strategies": ("native", "native")}, ValueError),
        ({"on_unavailable": "ignore"}, ValueError),
        ({"on_unavailable": None}, TypeError),
        ({"resume_at": -0.01}, ValueError),
        ({"resume_at": 1.01}, ValueError),
        ({"resume_at": float("nan")}, ValueError),
        ({"resume_at": float("inf")}, ValueError),
        ({"resume_at": True}, TypeError),
        ({"resume_at": "0.5"}, TypeError),
        ({"resume_at": None}, TypeError),
    ],
)
def test_illegal_backpressure(given: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=f"^{next(iter(given))} must ") as raised:
        BackpressurePolicy(**given)
    assert isinstance(raised.value, TidegateError)


def test_limits_of_a_scope_are_of_its_kind() -> None:
    limits, actors = MessageLimits(), ActorLimits()
    assert check_message_limits(limits, "limits") is limits
    assert check_actor_limits(actors, "limits") is actors
    with pytest.raises(TypeError, match=r"MessageLimits\(\) is no limit, None is not"):
        check_message_limits(None, "limits")
    with pytest.raises(TypeError, match=r"^limits must be MessageLimits.*got ActorLimits"):
        check_message_limits(actors, "limits")
    with pytest.raises(TypeError, match=r"^limits must be ActorLimits.*got MessageLimits"):
        check_actor_limits(limits, "limits")


def test_a_message_has_no_payload_to_quote() -> None:
    message: ReceivedMessageT = ReceivedMessage(id=1, queue="q", actor="a", payload_bytes=5)
    assert message.headers is None
    assert not hasattr(message, "payload")
