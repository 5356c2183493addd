"""Oversized payloads: who decides, what is recorded, and how long a rejected job stays away."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from tidegate.flow import refusals
from tidegate.flow.refusals import Refusal, Rejections, SizedScope, first_refusal
from tidegate.model.capacity import ActorLimits, MessageLimits, OnOversizedPayloadT
from tidegate.testing import received

SECRET = "what the payload says"


def scope(name: str, action: OnOversizedPayloadT, budget: int = 10) -> SizedScope:
    return SizedScope(name, ActorLimits(max_payload_bytes=budget, on_oversized_payload=action))


def decided(*scopes: SizedScope, size: int = 11, **fields: Any) -> Refusal | None:
    return first_refusal(received("resize", payload_bytes=size, **fields), scopes)


@pytest.mark.parametrize("action", ["nack", "reject"])
def test_a_refusal_names_the_scope_and_both_sizes(action: OnOversizedPayloadT) -> None:
    refusal = decided(scope("channel 'jobs'", action))
    assert refusal is not None
    assert (refusal.action, refusal.scope) == (action, "channel 'jobs'")
    assert refusal.error == (
        "OversizedPayload: the payload has 11 bytes, more than max_payload_bytes=10 of channel 'jobs'"
    )


@pytest.mark.parametrize("size", [0, 9, 10])
def test_what_is_not_larger_than_the_budget_is_not_oversized(size: int) -> None:
    assert decided(scope("the worker", "nack"), size=size) is None


def test_the_first_refusal_wins() -> None:
    alone, nack, reject = scope("one", "run_alone"), scope("two", "nack"), scope("three", "reject")
    assert decided(alone) is None
    for scopes, winner in [((alone, nack, reject), "two"), ((alone, reject, nack), "three"), ((nack, alone), "two")]:
        refusal = decided(*scopes)
        assert refusal is not None
        assert refusal.scope == winner
    large = scope("large", "nack", budget=100)
    refusal = decided(large, reject)
    assert refusal is not None
    assert refusal.action == "reject"
    assert decided(SizedScope("unlimited", MessageLimits(on_oversized_payload="nack"))) is None


def test_a_function_is_handed_the_message_and_asked_once() -> None:
    seen = []

    def choose(message: Any) -> Any:
        seen.append(message)
        return "run_alone" if (message.headers or {}).get("priority") == "critical" else "reject"

    assert decided(scope("the worker", choose), headers={"priority": "critical"}) is None
    refusal = decided(scope("the worker", choose))
    assert refusal is not None
    assert refusal.action == "reject"
    assert [message.headers for message in seen] == [{"priority": "critical"}, None]


def raises(_: Any) -> Any:
    raise ValueError(SECRET)


def leaves(_: Any) -> Any:
    raise SystemExit(SECRET)


def cancels(_: Any) -> Any:
    raise asyncio.CancelledError(SECRET)


class Later:
    """Hides from the check of the declaration that it answers with a coroutine."""

    def __call__(self, _: Any) -> Any:
        async def later() -> str:
            return "reject"

        return later()


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (raises, "raised ValueError"),
        (leaves, "raised SystemExit"),
        (cancels, "raised CancelledError"),
        (lambda _: None, "returned NoneType"),
        (lambda _: SECRET, "returned str"),
        (lambda _: ["nack"], "returned list"),
        (partial(Later()), "returned coroutine"),
    ],
)
def test_a_function_that_raises_or_answers_nonsense_is_a_nack_and_logged_without_what_it_said(
    function: Any, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, logger="tidegate.worker"):
        refusal = decided(scope("actor 'resize'", function))
    assert refusal is not None
    assert (refusal.action, refusal.scope) == ("nack", "actor 'resize'")
    (record,) = caplog.records
    fields = vars(record)
    assert problem in fields["problem"]
    assert (fields["actor"], fields["scope"]) == ("resize", "actor 'resize'")
    assert SECRET not in str(fields) + refusal.error


def test_a_rejected_job_stays_away_twice_as_long_each_time() -> None:
    rejections = Rejections(timedelta(seconds=1), timedelta(seconds=10))
    assert [rejections.delay(7).total_seconds() for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    assert rejections.delay(8) == timedelta(seconds=1)
    for _ in range(2000):
        rejections.delay(7)
    assert rejections.delay(7) == timedelta(seconds=10)


def test_only_so_many_rejected_jobs_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "REMEMBERED", 2)
    rejections = Rejections()
    first = rejections.delay(1)
    rejections.delay(2)
    assert rejections.delay(1) > first
    rejections.delay(3)
    assert rejections.delay(2) == first
    assert rejections.delay(1) == first
