"""Whether a channel takes anything in: paused by hand, by backpressure or by a failure, each for itself.

Backpressure reacts to two kinds of waits. Messages that wait for capacity in execution are told by `Backpressure.began`
and `Backpressure.ended`; a channel that cannot take in more because worker or channel hold all they may is told by
`Backpressure.filled`. The channel's plan says which strategy handles which:

- ``native`` and None: nothing here, because claims ask only for what fits, or messages wait within the intake limits.
- ``channel_pause``: the channel takes nothing in.
- ``worker_pause``: no channel does.
- ``resubscribe``: no channel does, and the worker stops listening until it resumes. Where messages wait in execution,
  what has not started goes back. Where intake is full nothing does: what is held is on its way to run, and would only
  come again.

A pause belongs to one channel and one pool or policy. It ends when no message of the channel waits there any more and
the pool's use is at most ``resume_at`` of its limit; of a policy nothing but the waits is known. What went back no
longer waits, so after ``resubscribe`` the message that caused it must fit as well; where it waits in a custom policy it
stays, since nobody else would learn that the policy has room again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from tidegate.errors import PolicyFailed
from tidegate.flow.plans import ChannelPlan
from tidegate.flow.policies import LimitPolicyT, policy_name
from tidegate.flow.pools import Pool
from tidegate.model.capacity import BackpressureStrategy
from tidegate.model.messages import ReceivedMessageT

log = logging.getLogger("tidegate.worker")

Cause: TypeAlias = Pool | LimitPolicyT
"""What messages wait for, compared by identity."""

BY_HAND: Final = "paused by hand"
"""Reason of a pause that only `Backpressure.resume` ends."""


@dataclass(frozen=True, slots=True)
class Transition:
    """Backpressure begins or ends to hold intake back.

    Attributes:
        paused: it begins.
        strategy: how.
        channel: whose wait it was; only this channel is held back by ``channel_pause``, every one by the others.
        cause: the pool or policy that was waited for, for people.
        gives_back: what has not started goes back, but for ``keep``: at the beginning of ``resubscribe``.
        keep: the one message that does not go back; None where all do.
    """

    paused: bool
    strategy: BackpressureStrategy
    channel: str
    cause: str
    gives_back: bool = False
    keep: ReceivedMessageT | None = None


class FlowEvents(Protocol):
    """What a worker is told. Calls come from within others of this package: note them down and return."""

    def room(self, queue: str) -> None:
        """A claim of this queue may bring something, where `Intake.ask` said no or less than all."""

    def changed(self, transition: Transition) -> None:
        """Backpressure begins or ends to hold intake back."""

    def failed(self, failure: PolicyFailed) -> None:
        """A policy failed: nothing is taken in any more. Told once."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many messages of a channel wait for a pool or policy, for people and metrics."""

    channel: str
    cause: str
    messages: int


@dataclass(slots=True)
class _Wait:
    cause: Cause
    messages: int = 0


@dataclass(slots=True)
class _Pause:
    plan: ChannelPlan
    cause: Cause
    strategy: BackpressureStrategy
    needs: int | None
    """Bytes of one more message that must fit before intake goes on; None where that does not matter."""


class Backpressure:
    """Holds channels closed; ``events`` is told of every change."""

    def __init__(self, events: FlowEvents) -> None:
        self._events = events
        self._by_hand = False
        self.failure: PolicyFailed | None = None
        """Why nothing is taken in any more."""
        self.counts: Counter[tuple[BackpressureStrategy, str]] = Counter()
        """How often each strategy paused intake for each channel."""
        self._known: dict[str, None] = {}
        self._waits: dict[tuple[str, int], _Wait] = {}
        self._pauses: dict[tuple[str, int], _Pause] = {}
        self._worker_wide = 0
        self._channels: Counter[str] = Counter()

    def is_closed(self, queue: str) -> bool:
        """Tell whether nothing is taken in from the queue, for whatever reason."""
        self._known[queue] = None
        return self._by_hand or self.failure is not None or self._worker_wide > 0 or self._channels[queue] > 0

    def reasons(self, queue: str) -> list[str]:
        """Return why nothing is taken in from the queue, for people; empty where something is."""
        reasons = [BY_HAND] if self._by_hand else []
        if self.failure is not None:
            reasons.append(str(self.failure))
        reasons += [
            f"{pause.strategy}: messages of channel {pause.plan.queue!r} wait for {_name(pause.cause)}"
            for pause in self._pauses.values()
            if pause.strategy != "channel_pause" or pause.plan.queue == queue
        ]
        return reasons

    def waiting(self) -> list[Waiting]:
        """Return who waits in execution for what, as far as custom policies say that they wait."""
        return [Waiting(queue, _name(wait.cause), wait.messages) for (queue, _), wait in self._waits.items()]

    def pause(self) -> None:
        """Take nothing in until `resume`, whatever backpressure does meanwhile."""
        self._by_hand = True

    def resume(self) -> None:
        """End a pause by hand; one by backpressure or a failure stays."""
        if self._by_hand:
            self._by_hand = False
            self._reopened(self._known)

    def fail(self, failure: PolicyFailed) -> None:
        """Take nothing in any more; the first failure counts."""
        if self.failure is None:
            self.failure = failure
            self._events.failed(failure)

    def began(self, plan: ChannelPlan, cause: Cause, message: ReceivedMessageT) -> None:
        """A message waits for capacity in execution."""
        wait = self._waits.setdefault((plan.queue, id(cause)), _Wait(cause))
        if not wait.messages:
            log.debug("messages wait for capacity", extra={"queue": plan.queue, "cause": _name(cause)})
        wait.messages += 1
        if isinstance(cause, Pool):
            # Unless it goes back, its own wait says when it got in.
            needs = message.payload_bytes if plan.on_pool == "resubscribe" else None
            self._hold(plan, cause, plan.on_pool, needs, gives_back=True)
        else:
            self._hold(plan, cause, plan.on_policy, None, gives_back=True, keep=message)

    def ended(self, plan: ChannelPlan, cause: Cause) -> None:
        """A message got its capacity, or waits no longer."""
        key = plan.queue, id(cause)
        wait = self._waits[key]
        wait.messages -= 1
        if not wait.messages:
            del self._waits[key]
            log.debug("no message waits for capacity any more", extra={"queue": plan.queue, "cause": _name(cause)})
            self._review(key)

    def filled(self, plan: ChannelPlan, pool: Pool, needs: int) -> None:
        """A pool of worker or channel has no room for one more message of so many bytes."""
        self._hold(plan, pool, plan.on_intake, needs, gives_back=False)

    def freed(self, pools: Sequence[Pool]) -> None:
        """A message left these pools."""
        if self._pauses:
            for key, pause in list(self._pauses.items()):
                if any(pause.cause is pool for pool in pools):
                    self._review(key)

    def _hold(
        self,
        plan: ChannelPlan,
        cause: Cause,
        strategy: BackpressureStrategy | None,
        needs: int | None,
        *,
        gives_back: bool,
        keep: ReceivedMessageT | None = None,
    ) -> None:
        key = plan.queue, id(cause)
        if strategy is None or strategy == "native" or key in self._pauses:
            return
        self._pauses[key] = _Pause(plan, cause, strategy, needs)
        self._count(plan, strategy, 1)
        self.counts[strategy, plan.queue] += 1
        self._events.changed(
            Transition(
                paused=True,
                strategy=strategy,
                channel=plan.queue,
                cause=_name(cause),
                gives_back=gives_back and strategy == "resubscribe",
                keep=keep if strategy == "resubscribe" else None,
            )
        )

    def _review(self, key: tuple[str, int]) -> None:
        pause = self._pauses.get(key)
        if pause is None or key in self._waits:
            return
        cause = pause.cause
        if isinstance(cause, Pool):
            if cause.usage > pause.plan.policy.resume_at:
                return
            if pause.needs is not None and not cause.fits(pause.needs):
                return
        del self._pauses[key]
        queue = pause.plan.queue
        self._count(pause.plan, pause.strategy, -1)
        self._events.changed(Transition(paused=False, strategy=pause.strategy, channel=queue, cause=_name(cause)))
        self._reopened([queue] if pause.strategy == "channel_pause" else self._known)

    def _count(self, plan: ChannelPlan, strategy: BackpressureStrategy, step: int) -> None:
        if strategy == "channel_pause":
            self._channels[plan.queue] += step
        else:
            self._worker_wide += step

    def _reopened(self, queues: Iterable[str]) -> None:
        for queue in list(queues):
            if not self.is_closed(queue):
                self._events.room(queue)


def _name(cause: Cause) -> str:
    return cause.name if isinstance(cause, Pool) else f"limit policy {policy_name(cause)}"
