"""The app: actors, a database, and the workers that run them. The one place where the parts are wired together."""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import ParamSpec, Self, TypedDict, TypeVar, Unpack

from tidegate.errors import ConfigurationError
from tidegate.flow.flows import PoolUsage
from tidegate.flow.policies import LimitPolicyT, as_policies
from tidegate.flow.propagation import Propagation, check_propagation
from tidegate.flow.scopes import Scopes, WorkerScope, worker_limits
from tidegate.model.capacity import ActorLimits, MessageLimits
from tidegate.model.defaults import MAX_PAYLOAD_BYTES
from tidegate.model.fields import UNSET, Unset, is_integer
from tidegate.routing.actors import ActorData
from tidegate.routing.channels import Channel
from tidegate.routing.handles import ActorHandle
from tidegate.routing.routers import ActorRegistry, Router
from tidegate.runtime.ledgers import Counts
from tidegate.runtime.settings import WorkerSettings
from tidegate.runtime.workers import WorkerRuntime
from tidegate.store.engine import Engine
from tidegate.store.listening import Listener
from tidegate.store.senders import Sender
from tidegate.store.urls import check_database_url
from tidegate.store.workers import WorkerStore

P = ParamSpec("P")
R = TypeVar("R")

DATABASE_URL_VARIABLE = "TIDEGATE_DATABASE_URL"
"""Names the database where ``App(database_url=)`` does not."""

MAX_MAX_PAYLOAD_BYTES = 256 * 1024 * 1024
"""Largest ``App(max_payload_bytes=)``: Postgres keeps no larger JSON in one value."""


class App:
    """Actors and the database of their jobs.

    Args:
        database_url: ``postgresql://user:password@host:port/database``; ``TIDEGATE_DATABASE_URL`` when left out. It is
            needed by workers and by enqueues without a session, not by those in a session of yours.
        routers: the same as calling `include_router` with each.
        max_payload_bytes: bytes of JSON that the arguments of one job may have; 1 MiB unless given. The database
            refuses more than its operator allows, 1 MiB until ``tidegate.set_max_payload_bytes`` says otherwise.

    Raises:
        ConfigurationError: two actors have one name, a router is in another app, or a setting is out of bounds.
    """

    def __init__(
        self,
        database_url: str | None = None,
        *,
        routers: Iterable[Router] = (),
        max_payload_bytes: int = MAX_PAYLOAD_BYTES,
    ) -> None:
        if not is_integer(max_payload_bytes) or not 1 <= max_payload_bytes <= MAX_MAX_PAYLOAD_BYTES:
            raise ConfigurationError(
                f"max_payload_bytes must be an integer from 1 to {MAX_MAX_PAYLOAD_BYTES}; got {max_payload_bytes!r}"
            )
        self._database_url = database_url
        self._engine: Engine | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._registry = ActorRegistry()
        self._sender = Sender(lambda: self.engine, max_payload_bytes)
        self._own = Router()
        self.include_router(self._own)
        for router in routers:
            self.include_router(router)

    def __repr__(self) -> str:
        return f"App({', '.join(self._registry) or 'no actors'})"

    async def __aenter__(self) -> Self:
        await self.engine.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def database_url(self) -> str:
        """The database's URL, password included.

        Raises:
            ConfigurationError: neither the app nor the environment names one.
        """
        url = self._database_url or os.environ.get(DATABASE_URL_VARIABLE)
        if not url:
            raise ConfigurationError(
                f"the app has no database; give App(database_url=) or set {DATABASE_URL_VARIABLE} to something like "
                "postgresql://user@host:5432/name, or use a session of yours: using(session=)"
            )
        return url

    @property
    def engine(self) -> Engine:
        """The app's pool of connections, made when first asked for and opened when first used.

        It belongs to the event loop that used it first, and is made anew when that loop is over.

        Raises:
            ConfigurationError: there is no database's URL, it is not one of Postgres, or the pool is in use on the
                event loop of another thread.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        if self._loop is not None and self._loop.is_closed():
            self._engine = self._loop = None
        if loop is not None and self._loop not in {None, loop}:
            raise ConfigurationError(
                "the app's pool is in use on another event loop; in a thread, enqueue in a session of yours: "
                "using(session=), or hand the coroutine to the app's loop with asyncio.run_coroutine_threadsafe"
            )
        self._loop = self._loop or loop
        if self._engine is None:
            self._engine = Engine(self.database_url)
        return self._engine

    @property
    def actors(self) -> Mapping[str, ActorData]:
        """The actors by name."""
        return MappingProxyType(self._registry)

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues of the actors' channels, in the order in which they were declared."""
        return tuple(dict.fromkeys(actor.queue for actor in self._registry.values()))

    def include_router(self, router: Router) -> None:
        """Add the actors of a router, those that it gets later too.

        Raises:
            ConfigurationError: an actor's name is taken, or the router is in an app already.
        """
        router.attach(self._registry, self._sender)

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
        """Declare an actor without a router of your own; the arguments are those of ``Router.actor``."""
        return self._own.actor(
            channel=channel,
            name=name,
            max_attempts=max_attempts,
            timeout=timeout,
            priority=priority,
            limits=limits,
            limit_policies=limit_policies,
        )

    async def run_worker(self, **options: Unpack["WorkerOptions"]) -> int:
        """Run a worker in this process until it is told to stop; the options are those of `Worker`.

        Returns:
            The process's exit code: 0 after a clean end, else one of ``tidegate.runtime.endings.WorkerExit``.
        """
        return await Worker(self, **options).run()

    async def close(self) -> None:
        """Close the app's connections; it opens them again when it is used again."""
        engine, self._engine, self._loop = self._engine, None, None
        if engine is not None:
            await engine.close()


class WorkerTuning(TypedDict, total=False):
    """The options of a worker that are settings of its loop, with the defaults of ``tidegate.runtime.settings``."""

    fair: bool | None
    name: str
    lease: timedelta
    heartbeat: timedelta | None
    fence: timedelta | None
    poll: timedelta
    grace: timedelta
    stall_limit: timedelta
    maintenance: timedelta
    version: str
    namespace: str | None
    pod: str | None
    health_address: str | None
    signals: bool


class WorkerCapacity(TypedDict, total=False):
    """The options of a worker that say how much it holds and runs at once."""

    limits: MessageLimits | Unset
    slots: int | Unset
    limit_policies: Iterable[LimitPolicyT]
    actor_limits_propagation: Propagation


class WorkerOptions(WorkerTuning, WorkerCapacity, total=False):
    """All options of `Worker` and ``App.run_worker``."""

    queues: Iterable[str] | None
    listen_url: str | None


def scopes_of(app: App, **capacity: Unpack[WorkerCapacity]) -> Scopes:
    """Return what is declared about the capacity of a worker that runs the app's actors; the options are `Worker`'s.

    Raises:
        InvalidType, InvalidCapacity, ConfigurationError: an option breaks its rule.
    """
    actors = tuple(app.actors.values())
    return Scopes(
        worker=WorkerScope(
            limits=worker_limits(capacity.get("limits", UNSET), capacity.get("slots", UNSET)),
            limit_policies=as_policies(capacity.get("limit_policies", ()), "limit_policies"),
        ),
        channels=tuple(actor.channel.scope for actor in actors),
        actors=tuple(actor.scope for actor in actors),
        propagation=check_propagation(capacity.get("actor_limits_propagation", "on")),
    )


class Worker:
    """One process's loop that claims and runs jobs.

    Args:
        app: whose actors it runs.
        queues: the queues it claims from; those of the app's actors when left out.
        listen_url: where it listens for notifications, if the app's URL leads to a pooler in transaction mode.
        limits: what it holds at once, over all queues, from claim to outcome; ``MessageLimits(max_messages=1000)``
            unless given, and ``MessageLimits()`` for no limit.
        slots: short for ``limits=MessageLimits(max_messages=slots)``; give one of the two.
        limit_policies: policies of the application that every message must pass before it runs.
        actor_limits_propagation: ``on`` (the default) lets the limits of actors and routers bound what is claimed;
            ``off`` lets messages wait for them here.
        options: ``fair=True`` or ``False`` decides the order for this worker, None (the default) follows each queue's
            own; the others are those of ``tidegate.runtime.settings.WorkerSettings``.

    Raises:
        InvalidType: ``limits`` or ``limit_policies`` is of the wrong type; None is not "no limit".
        ConfigurationError: a setting is out of bounds or of the wrong type, limits contradict each other or demand
            backpressure that cannot be had, an actor's annotations cannot be used, there is no database, or a URL
            cannot be read.
        InvalidName: a queue's or the worker's name breaks the rule of names.
    """

    def __init__(
        self,
        app: App,
        *,
        queues: Iterable[str] | None = None,
        listen_url: str | None = None,
        limits: MessageLimits | Unset = UNSET,
        slots: int | Unset = UNSET,
        limit_policies: Iterable[LimitPolicyT] = (),
        actor_limits_propagation: Propagation = "on",
        **options: Unpack[WorkerTuning],
    ) -> None:
        for actor in app.actors.values():
            actor.check()
        served = app.queues if queues is None else _served(queues)
        self.app = app
        self.settings = WorkerSettings(queues=served, **options)
        self._runtime = WorkerRuntime(
            self.settings,
            scopes_of(
                app,
                limits=limits,
                slots=slots,
                limit_policies=limit_policies,
                actor_limits_propagation=actor_limits_propagation,
            ),
            WorkerStore(check_database_url(app.database_url), heartbeat_timeout=self.settings.lease / 3),
            Listener(check_database_url(app.database_url if listen_url is None else listen_url)),
        )

    @property
    def counts(self) -> Counts:
        """What happened in this process so far."""
        return self._runtime.counts

    def usage(self) -> list[PoolUsage]:
        """Return what every pool of its limits holds; pools without a limit are left out."""
        return self._runtime.flow.usage()

    def pause(self) -> None:
        """Take nothing in until `resume`; what is held goes on. Neither ends what backpressure holds back."""
        self._runtime.pause()

    def resume(self) -> None:
        """End `pause`."""
        self._runtime.resume()

    async def run(self) -> int:
        """Run jobs until `stop` or a signal, then drain; the database being away is waited for.

        Returns:
            The process's exit code: 0 after a clean end, else one of ``tidegate.runtime.endings.WorkerExit``.
        """
        return await self._runtime.run()

    def stop(self) -> None:
        """Stop claiming and drain within the grace period; called again, give running jobs back at once."""
        self._runtime.stop()


def _served(queues: object) -> tuple[str, ...]:
    if isinstance(queues, str):
        return (queues,)
    if not isinstance(queues, Iterable):
        raise ConfigurationError(f"queues must be names of queues, or None for the app's; got {type(queues).__name__}")
    return tuple(queues)
