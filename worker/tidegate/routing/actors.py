"""Actors: a function with a name, a channel, and options of its own."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.errors import ConfigurationError
from tidegate.flow.policies import LimitPolicyT, as_policies
from tidegate.flow.scopes import ActorScope, RouterScope
from tidegate.model.capacity import ActorLimits, check_actor_limits
from tidegate.model.jobs import JobOptions
from tidegate.model.names import check_name
from tidegate.routing.channels import Channel
from tidegate.routing.signatures import Arguments


@dataclass(frozen=True, eq=False)
class ActorData:
    """What the worker and the policies know of an actor.

    Attributes:
        name: unique in one app; stored with each job.
        channel: where its jobs are taken in.
        function: the user's function, which runs as it is.
        options: of its jobs where ``using()`` says nothing: the channel's queue, and the actor's own ``max_attempts``,
            ``timeout`` and ``priority``, of which None is left to the queue's defaults.
        limits: what one worker runs of it at once; None for no limit of its own.
        limit_policies: policies of the application that its messages must pass before they run.
        router: what it shares with the other actors of its router.
        scope: all of that, as a worker's capacity is told of it.
    """

    name: str
    channel: Channel
    function: Callable[..., Any]
    options: JobOptions = field(default_factory=JobOptions)
    limits: ActorLimits | None = None
    limit_policies: tuple[LimitPolicyT, ...] = ()
    router: RouterScope = field(default_factory=RouterScope, repr=False)
    scope: ActorScope = field(init=False, repr=False)
    arguments: Arguments = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_name(self.name, "name")
        if not inspect.isroutine(self.function):
            raise ConfigurationError(f"actor {self.name!r} must be a function; got {type(self.function).__name__}")
        if inspect.isgeneratorfunction(self.function) or inspect.isasyncgenfunction(self.function):
            raise ConfigurationError(f"actor {self.name!r} is a generator, which nobody would run; return, never yield")
        if self.limits is not None:
            check_actor_limits(self.limits, "limits")
        object.__setattr__(self, "limit_policies", as_policies(self.limit_policies, "limit_policies"))
        object.__setattr__(self, "scope", self._as_scope())
        object.__setattr__(self, "options", self.options.merged(JobOptions(queue=self.channel.address)))
        object.__setattr__(self, "arguments", Arguments(self.function, self.name))

    @property
    def queue(self) -> str:
        """The queue of its jobs, unless ``using(queue=)`` says otherwise: the channel's address."""
        return self.channel.address

    @property
    def is_async(self) -> bool:
        """Whether calling the function gives a coroutine; other functions run in a thread."""
        return inspect.iscoroutinefunction(self.function)

    @property
    def qualified_name(self) -> str:
        """Module and name of the function, for messages."""
        return f"{self.function.__module__}.{self.function.__qualname__}"

    def bind(self, payload: str | bytes | Mapping[str, object]) -> dict[str, Any]:
        """Return the keyword arguments of a run from a job's payload, as JSON text or decoded.

        Raises:
            InvalidPayload: the payload does not fit the signature; names the argument, never a value.
            ConfigurationError: an annotation cannot be resolved.
        """
        return self.arguments.bind(payload)

    def check(self) -> None:
        """Resolve the annotations now rather than with the first job.

        Raises:
            ConfigurationError: an annotation cannot be resolved, or pydantic has no reading of it.
        """
        _ = self.arguments.adapter

    def _as_scope(self) -> ActorScope:
        return ActorScope(
            name=self.name,
            channel=self.channel.address,
            data=self,
            router=self.router,
            limits=self.limits,
            limit_policies=self.limit_policies,
        )
