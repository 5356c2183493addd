"""One worker's capacity, put together from what is declared at its scopes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.errors import PolicyFailed
from tidegate.flow.backpressure import Backpressure, FlowEvents, Transition
from tidegate.flow.executions import Execution
from tidegate.flow.intakes import Intake
from tidegate.flow.plans import Plan
from tidegate.flow.propagation import Propagation
from tidegate.flow.refusals import Rejections
from tidegate.flow.scopes import ActorScope, ChannelScope, WorkerScope


@dataclass(frozen=True, slots=True)
class PoolUsage:
    """What a pool holds, for people and metrics; a maximum of None is no limit."""

    name: str
    messages: int
    max_messages: int | None
    bytes: int
    max_bytes: int | None


class Flow:
    """What one worker may take in and run. Everything of it is used on one event loop.

    Args:
        worker: the process's own limits and policies.
        channels: those of the actors.
        actors: all actors of the app.
        events: told of what the worker has to react to.
        propagation: ``actor_limits_propagation``.

    Attributes:
        intake: asked before each claim, and handed its reply.
        execution: makes the lease that a message needs to run.
        backpressure: whether channels take anything in, and why not.
        rejections: how long a rejected job stays away.

    Raises:
        ConfigurationError: the scopes contradict each other, or demand backpressure that cannot be had.
    """

    def __init__(
        self,
        *,
        worker: WorkerScope,
        channels: Iterable[ChannelScope],
        actors: Iterable[ActorScope],
        events: FlowEvents,
        propagation: Propagation = "on",
    ) -> None:
        self._events = events
        self._plan = Plan(worker, channels, actors, propagation)
        self.backpressure = Backpressure(self)
        self.intake = Intake(self._plan, self.backpressure, self)
        self.execution = Execution(self.backpressure)
        self.rejections = Rejections()

    @property
    def failure(self) -> PolicyFailed | None:
        """Why the worker is unhealthy: a policy failed, and nothing is taken in any more."""
        return self.backpressure.failure

    def pause(self) -> None:
        """Take nothing in until `resume`; what is held goes on."""
        self.backpressure.pause()

    def resume(self) -> None:
        """End `pause`; backpressure stays as it is."""
        self.backpressure.resume()

    def most_messages(self, queues: Iterable[str]) -> int | None:
        """Return how many messages of these queues are held at once at most; None for any number."""
        return self._plan.most_messages(queues)

    def usage(self) -> list[PoolUsage]:
        """Return what every pool holds."""
        return [
            PoolUsage(pool.name, pool.messages, pool.max_messages, pool.bytes, pool.max_bytes)
            for pool in self._plan.pools
        ]

    def room(self, queue: str) -> None:
        """Pass on: see `FlowEvents`."""
        self._events.room(queue)

    def changed(self, transition: Transition) -> None:
        """Pass on: see `FlowEvents`. What a paused queue had a right to is there for others."""
        self._events.changed(transition)
        if transition.paused:
            self.intake.reconsider()

    def failed(self, failure: PolicyFailed) -> None:
        """Pass on: see `FlowEvents`."""
        self._events.failed(failure)
