"""Custom limit policies: reservations that an application defines, and the types that they are made of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from tidegate.errors import InvalidType
from tidegate.model.messages import ReceivedMessageT

if TYPE_CHECKING:
    # A layer above this one; policies are handed what it declares.
    from tidegate.routing.actors import ActorData

__all__ = ["LimitPolicyT", "OnWait", "ReceivedMessageT", "ReservationLeaseT", "as_policies", "distinct", "policy_name"]

OnWait: TypeAlias = Callable[[], Awaitable[None]]
"""To be awaited before a policy waits, so that intake can react; any number of calls count once."""

T = TypeVar("T")


class ReservationLeaseT(Protocol):
    """Capacity of a policy in the hands of one message."""

    async def release(self) -> None:
        """Give the capacity back. Idempotent, must not raise: a failure stops the worker."""


class LimitPolicyT(Protocol):
    """Decides when a message may run by a rule of the application's own.

    It is never translated into what a claim asks for, and an error in it stops the worker, so it must handle its own.
    """

    async def reserve(self, message: ReceivedMessageT, actor: ActorData, on_wait: OnWait, /) -> ReservationLeaseT:
        """Wait until the message may run, and return what is released when it has run.

        The call is cancelled when the message goes back unstarted, and must then keep no capacity.

        Args:
            message: what is about to run.
            actor: its actor.
            on_wait: to be awaited before the policy waits.
        """


def as_policies(value: object, field: str) -> tuple[LimitPolicyT, ...]:
    """Return the policies of one scope, each object once.

    Raises:
        InvalidType: it is no collection of objects with a ``reserve``.
    """
    if not isinstance(value, Iterable) or isinstance(value, str | bytes):
        raise InvalidType(field, f"must be a tuple of policies, as in (policy,); got {type(value).__name__}")
    policies = distinct(value)
    for policy in policies:
        if isinstance(policy, type):
            raise InvalidType(field, f"must hold policies, not classes: {policy.__name__}(...)")
        if not callable(getattr(policy, "reserve", None)):
            raise InvalidType(field, f"must hold objects with a method reserve; got {type(policy).__name__}")
    return policies


def distinct(items: Iterable[T]) -> tuple[T, ...]:
    """Return the items in this order, each object once: equal ones that are not the same stay apart."""
    return tuple({id(item): item for item in items}.values())


def policy_name(policy: LimitPolicyT) -> str:
    """Return what messages call a policy: its class."""
    return type(policy).__qualname__
