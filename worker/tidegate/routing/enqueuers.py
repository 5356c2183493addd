"""Enqueuers: an actor with the options of its next jobs; immutable, so that one can be kept and shared."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Generic, ParamSpec, TypedDict, Unpack, overload

from tidegate.errors import ConfigurationError, InvalidJob, InvalidPayload
from tidegate.model.jobs import JobOptions
from tidegate.routing.actors import ActorData
from tidegate.routing.senders import AsyncSession, EnqueuedJob, JobSender, SyncSession

P = ParamSpec("P")


class UsingOptions(TypedDict, total=False):
    """The options of ``using()``; None is the same as left out.

    ``run_at`` and ``expires`` are aware datetimes; ``delay``, and also ``expires``, a timedelta from now; ``timeout``
    is the longest run of one attempt. Bounds and cross-field rules: ``tidegate.model.jobs.JobOptions``.
    """

    limit_key: str | None
    group_key: str | None
    priority: int | None
    run_at: datetime | None
    delay: timedelta | None
    expires: timedelta | datetime | None
    queue: str | None
    max_attempts: int | None
    timeout: timedelta | None
    job_key: str | None
    headers: Mapping[str, str] | None


class Binding:
    """Where the actors of one router find their app's sender, from the moment the router is included."""

    def __init__(self) -> None:
        self._sender: JobSender | None = None

    def attach(self, sender: JobSender) -> None:
        """Remember the sender.

        Raises:
            ConfigurationError: there is one already.
        """
        if self._sender is not None:
            raise ConfigurationError("a router belongs to one app and is included once; make another Router")
        self._sender = sender

    def sender_for(self, actor: ActorData) -> JobSender:
        """Return the sender.

        Raises:
            ConfigurationError: the actor's router is in no app yet.
        """
        if self._sender is None:
            raise ConfigurationError(
                f"actor {actor.name!r} belongs to no app yet; call app.include_router(router) before it is enqueued"
            )
        return self._sender


class _Draft(Generic[P]):
    """What both kinds of enqueuers share: the actor, its options, and the checks before anything is sent."""

    def __init__(self, actor: ActorData, binding: Binding, options: JobOptions) -> None:
        self._actor = actor
        self._binding = binding
        self._options = options

    @property
    def _sender(self) -> JobSender:
        return self._binding.sender_for(self._actor)

    def _payload(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> str:
        return self._actor.arguments.encode(args, kwargs, self._sender.max_payload_bytes)

    def _payloads(self, jobs: Iterable[Mapping[str, object]]) -> Iterator[str]:
        if self._options.job_key is not None:
            raise InvalidJob("job_key", "names one job and cannot go with enqueue_many; enqueue each job by itself")
        for number, arguments in enumerate(jobs):
            try:
                yield self._payload((), arguments)
            except InvalidPayload as error:
                raise InvalidPayload(f"[{number}].{error.field}", error.rule) from None


class SyncEnqueuer(_Draft[P]):
    """Enqueues at once, in the transaction of a synchronous session."""

    def __init__(self, actor: ActorData, binding: Binding, options: JobOptions, session: SyncSession) -> None:
        super().__init__(actor, binding, options)
        self._session = session

    def using(self, **options: Unpack[UsingOptions]) -> "SyncEnqueuer[P]":
        """Return an enqueuer on the same session, with these options over the present ones."""
        merged = JobOptions(**options).merged(self._options)
        return SyncEnqueuer(self._actor, self._binding, merged, self._session)

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> EnqueuedJob:
        """Insert one job with the arguments of the actor's function.

        Raises:
            InvalidPayload: the arguments do not fit the signature, or cannot be stored; nothing was sent.
        """
        return self._sender.send_now(self._session, self._actor.name, self._options, self._payload(args, kwargs))

    def enqueue_many(self, jobs: Iterable[Mapping[str, object]]) -> list[EnqueuedJob]:
        """Insert one job for each mapping of argument names to values, in this order.

        The iterable is read as the jobs are sent, a few thousand at a time.

        Raises:
            InvalidPayload: a mapping does not fit; those before it may be in your transaction: roll it back.
        """
        return self._sender.send_many_now(self._session, self._actor.name, self._options, self._payloads(jobs))


class AsyncEnqueuer(_Draft[P]):
    """Enqueues when awaited, in the transaction of an asynchronous session or on a connection of the app."""

    def __init__(
        self, actor: ActorData, binding: Binding, options: JobOptions, session: AsyncSession | None = None
    ) -> None:
        super().__init__(actor, binding, options)
        self._session = session

    @overload
    def using(self, *, session: AsyncSession | None = None, **options: Unpack[UsingOptions]) -> "AsyncEnqueuer[P]": ...
    @overload
    def using(self, *, session: SyncSession, **options: Unpack[UsingOptions]) -> SyncEnqueuer[P]: ...
    def using(
        self, *, session: SyncSession | AsyncSession | None = None, **options: Unpack[UsingOptions]
    ) -> "SyncEnqueuer[P] | AsyncEnqueuer[P]":
        """Return an enqueuer with these options over the present ones; the actor itself does not change.

        With a session, jobs are inserted in its transaction and a rollback removes them; a synchronous one returns
        jobs, an asynchronous one awaitables. Without one, on a connection of the app, committed when the call returns.
        What is given here wins over the actor's own options, these over the queue's defaults, these over the built-in.

        Raises:
            InvalidJob, InvalidName: an option breaks its rule.
            ConfigurationError: the session is of no supported kind, or the actor is in no app yet.
        """
        merged = JobOptions(**options).merged(self._options)
        if session is None:
            return AsyncEnqueuer(self._actor, self._binding, merged, self._session)
        kind = AsyncEnqueuer if self._sender.is_async(session) else SyncEnqueuer
        return kind(self._actor, self._binding, merged, session)  # type: ignore[arg-type]  # is_async has told which

    async def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> EnqueuedJob:
        """Insert one job with the arguments of the actor's function.

        Raises:
            InvalidPayload: the arguments do not fit the signature, or cannot be stored; nothing was sent.
            DatabaseUnavailable: the app's own pool found no server.
        """
        return await self._sender.send(self._session, self._actor.name, self._options, self._payload(args, kwargs))

    async def enqueue_many(self, jobs: Iterable[Mapping[str, object]]) -> list[EnqueuedJob]:
        """Insert one job for each mapping of argument names to values, in this order; without a session all or none.

        The iterable is read as the jobs are sent, a few thousand at a time.

        Raises:
            InvalidPayload: a mapping does not fit; with a session those before it may be in your transaction: roll it
                back.
            DatabaseUnavailable: the app's own pool found no server.
        """
        return await self._sender.send_many(self._session, self._actor.name, self._options, self._payloads(jobs))
