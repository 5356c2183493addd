"""Routers: groups of actors that an app includes."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import ParamSpec, TypeVar

from tidegate.errors import ConfigurationError
from tidegate.flow.policies import LimitPolicyT, as_policies
from tidegate.flow.scopes import RouterScope
from tidegate.model.capacity import ActorLimits, check_actor_limits
from tidegate.model.jobs import JobOptions
from tidegate.routing.actors import ActorData
from tidegate.routing.channels import Channel, as_channel
from tidegate.routing.enqueuers import Binding
from tidegate.routing.handles import ActorHandle
from tidegate.routing.senders import JobSender

P = ParamSpec("P")
R = TypeVar("R")


class ActorRegistry(dict[str, ActorData]):
    """The actors of one app by name."""

    def add(self, data: ActorData) -> None:
        """Add an actor.

        Raises:
            ConfigurationError: another one has its name.
        """
        present = self.get(data.name)
        if present is not None:
            raise ConfigurationError(
                f"two actors are called {data.name!r}: {present.qualified_name} and {data.qualified_name}; "
                "give one of them another name="
            )
        self[data.name] = data


class Router:
    """Actors declared together, to be included in one app.

    Args:
        limits: what one worker runs of them all together at once; None for no such limit.
        limit_policies: policies of the application that their messages must pass before they run.

    Raises:
        InvalidType: ``limits`` is no ``ActorLimits``, or ``limit_policies`` is no collection of policies.
    """

    def __init__(self, *, limits: ActorLimits | None = None, limit_policies: Iterable[LimitPolicyT] = ()) -> None:
        self._scope = RouterScope(
            limits=None if limits is None else check_actor_limits(limits, "limits"),
            limit_policies=as_policies(limit_policies, "limit_policies"),
        )
        self._actors: list[ActorData] = []
        self._binding = Binding()
        self._registry: ActorRegistry | None = None

    @property
    def actors(self) -> tuple[ActorData, ...]:
        """The actors declared so far, in this order."""
        return tuple(self._actors)

    def actor(
        self,
        *,
        channel: Channel | str,
        name: str | None = None,
        max_attempts: int | None = None,
        timeout: timedelta | None = None,
        priority: int | None = None,
        limits: ActorLimits | None = None,
        limit_policies: Iterable[LimitPolicyT] = (),
    ) -> Callable[[Callable[P, R]], ActorHandle[P, R]]:
        """Declare a function, async or not, as an actor.

        Args:
            channel: where its jobs are taken in; a text is short for the channel of that queue.
            name: unique in the app; the function's name when left out.
            max_attempts: attempts of a job before it is dead, 1 to 1000; the queue's default when left out.
            timeout: the longest run of one attempt; the queue's default when left out.
            priority: -32768 to 32767, higher first; the queue's default when left out.
            limits: what one worker runs of this actor at once; the same object at several actors is one pool.
            limit_policies: policies of the application that its messages must pass before they run.

        Raises:
            InvalidJob, InvalidName: an option breaks its rule.
            InvalidType: ``limits`` is no ``ActorLimits``, or ``limit_policies`` is no collection of policies.
            ConfigurationError: the function cannot be an actor, or its name is taken in the app.
        """
        intake = as_channel(channel)
        options = JobOptions(max_attempts=max_attempts, timeout=timeout, priority=priority)
        policies = as_policies(limit_policies, "limit_policies")

        def declare(function: Callable[P, R]) -> ActorHandle[P, R]:
            chosen = name if name is not None else getattr(function, "__name__", repr(function))
            data = ActorData(
                name=chosen,
                channel=intake,
                function=function,
                options=options,
                limits=limits,
                limit_policies=policies,
                router=self._scope,
            )
            if self._registry is not None:
                self._registry.add(data)
            self._actors.append(data)
            return ActorHandle(data, self._binding)

        return declare

    def attach(self, registry: ActorRegistry, sender: JobSender) -> None:
        """Hand the actors, those declared later too, to an app and its sender; called by ``App.include_router``.

        Raises:
            ConfigurationError: the router is in an app already, or two actors have one name.
        """
        self._binding.attach(sender)
        self._registry = registry
        for data in self._actors:
            registry.add(data)
