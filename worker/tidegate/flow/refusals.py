"""Oversized payloads: whether a message is refused before anything is reserved for it, and by which scope."""

from __future__ import annotations

import inspect
import logging
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal, cast

from tidegate.model.capacity import ACTIONS, ActorLimits, MessageLimits, OversizedPayloadAction
from tidegate.model.defaults import BACKOFF_FIRST, BACKOFF_MAX
from tidegate.model.messages import ReceivedMessageT

log = logging.getLogger("tidegate.worker")

REMEMBERED: Final = 10_000
"""Jobs whose rejections are counted; the one that was rejected longest ago is forgotten for a new one."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A message that does not run here.

    Attributes:
        action: ``nack``, a failed attempt, or ``reject``, back to the queue with the attempt not spent.
        scope: which limits decided.
        error: what to record of a failed attempt; no part of the payload.
    """

    action: Literal["nack", "reject"]
    scope: str
    error: str


@dataclass(frozen=True, slots=True)
class SizedScope:
    """Limits with a byte budget, and what people call the scope that has them."""

    name: str
    limits: MessageLimits | ActorLimits

    def refusal(self, message: ReceivedMessageT) -> Refusal | None:
        """Return why this scope refuses the message; None where it fits or may run alone."""
        most = self.limits.max_payload_bytes
        if most is None or message.payload_bytes <= most:
            return None
        action = self._action(message)
        if action == "run_alone":
            return None
        size = f"the payload has {message.payload_bytes} bytes, more than max_payload_bytes={most} of {self.name}"
        return Refusal(action, self.name, f"OversizedPayload: {size}")

    def _action(self, message: ReceivedMessageT) -> OversizedPayloadAction:
        decide = self.limits.on_oversized_payload
        if isinstance(decide, str):
            return decide
        try:
            action: object = decide(message)
        except BaseException as error:  # noqa: BLE001 - the user's code; whatever it wants to end is not its to end
            problem = f"raised {type(error).__name__}"
        else:
            if isinstance(action, str) and action in ACTIONS:
                return cast("OversizedPayloadAction", action)
            if inspect.iscoroutine(action):
                action.close()
            problem = f"returned {type(action).__name__}, not one of {', '.join(ACTIONS)}"
        # What it raised or returned may quote the message, so the class alone is logged.
        log.error(
            "on_oversized_payload failed, the message is refused",
            extra={"job": message.id, "actor": message.actor, "scope": self.name, "problem": problem},
        )
        return "nack"


def first_refusal(message: ReceivedMessageT, scopes: Iterable[SizedScope]) -> Refusal | None:
    """Return the first refusal, in the order worker, channel, router, actor."""
    for scope in scopes:
        refusal = scope.refusal(message)
        if refusal is not None:
            return refusal
    return None


class Rejections:
    """How long a rejected job stays away: each time twice as long, so that it never comes round in a hot loop."""

    def __init__(self, first: timedelta = BACKOFF_FIRST, longest: timedelta = BACKOFF_MAX) -> None:
        self._first = first
        self._longest = longest
        self._times: OrderedDict[int, int] = OrderedDict()

    def delay(self, job: int) -> timedelta:
        """Count a rejection of the job by this process, and return the delay of its next start."""
        times = self._times.pop(job, 0)
        self._times[job] = times + 1
        if len(self._times) > REMEMBERED:
            self._times.popitem(last=False)
        return min(self._first * 2.0 ** min(times, 30), self._longest)
