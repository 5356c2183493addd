"""The handle that a decorated function becomes: call it to run it here, enqueue it to run it in a worker."""

from typing import Generic, ParamSpec, TypeVar

from tidegate.routing.actors import ActorData
from tidegate.routing.enqueuers import AsyncEnqueuer, Binding

P = ParamSpec("P")
R = TypeVar("R")


class ActorHandle(AsyncEnqueuer[P], Generic[P, R]):
    """An actor as user code sees it.

    ``await handle.enqueue(...)`` enqueues on a connection of the app, ``handle.using(...)`` gives an enqueuer with
    options, and ``handle(...)`` runs the function itself.
    """

    def __init__(self, data: ActorData, binding: Binding) -> None:
        super().__init__(data, binding, data.options)
        self.__name__ = data.name
        self.__doc__ = data.function.__doc__
        self.__wrapped__ = data.function

    def __repr__(self) -> str:
        return f"<actor {self.data.name!r} of queue {self.data.queue!r}: {self.data.qualified_name}>"

    @property
    def data(self) -> ActorData:
        """What the worker knows of the actor."""
        return self._actor

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here and now, as if it were no actor."""
        result: R = self._actor.function(*args, **kwargs)
        return result
