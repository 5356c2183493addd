"""Background jobs out of Postgres, under limits that hold over all queues and workers.

An actor enqueues a job into a queue; a worker with free slots claims it under its limit and runs it. Start with `App`,
``App.actor`` and `set_limit`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.app import App, Worker
    from tidegate.errors import (
        ConfigurationError,
        Conflict,
        DatabaseError,
        DatabaseUnavailable,
        InvalidCapacity,
        InvalidDuration,
        InvalidInput,
        InvalidJob,
        InvalidLimit,
        InvalidManifest,
        InvalidName,
        InvalidPayload,
        InvalidQueue,
        InvalidType,
        LimitOwned,
        NotFound,
        ObjectOwned,
        PolicyFailed,
        QueueOwned,
        SchemaOutdated,
        TidegateError,
    )
    from tidegate.flow.policies import LimitPolicyT, ReservationLeaseT
    from tidegate.model.capacity import (
        ActorLimits,
        BackpressurePolicy,
        MessageLimits,
        OnOversizedPayloadT,
        OversizedPayloadAction,
    )
    from tidegate.model.messages import ReceivedMessageT
    from tidegate.routing.actors import ActorData
    from tidegate.routing.channels import Channel
    from tidegate.routing.routers import Router
    from tidegate.routing.senders import EnqueuedJob
    from tidegate.store.limits import clear_limit, list_limits, set_limit

__all__ = [
    "ActorData",
    "ActorLimits",
    "App",
    "BackpressurePolicy",
    "Channel",
    "ConfigurationError",
    "Conflict",
    "DatabaseError",
    "DatabaseUnavailable",
    "EnqueuedJob",
    "InvalidCapacity",
    "InvalidDuration",
    "InvalidInput",
    "InvalidJob",
    "InvalidLimit",
    "InvalidManifest",
    "InvalidName",
    "InvalidPayload",
    "InvalidQueue",
    "InvalidType",
    "LimitOwned",
    "LimitPolicyT",
    "MessageLimits",
    "NotFound",
    "ObjectOwned",
    "OnOversizedPayloadT",
    "OversizedPayloadAction",
    "PolicyFailed",
    "QueueOwned",
    "ReceivedMessageT",
    "ReservationLeaseT",
    "Router",
    "SchemaOutdated",
    "TidegateError",
    "Worker",
    "clear_limit",
    "list_limits",
    "set_limit",
]

_HOMES = {
    "app": ("App", "Worker"),
    "flow.policies": ("LimitPolicyT", "ReservationLeaseT"),
    "model.capacity": (
        "ActorLimits",
        "BackpressurePolicy",
        "MessageLimits",
        "OnOversizedPayloadT",
        "OversizedPayloadAction",
    ),
    "model.messages": ("ReceivedMessageT",),
    "routing.actors": ("ActorData",),
    "routing.channels": ("Channel",),
    "routing.routers": ("Router",),
    "routing.senders": ("EnqueuedJob",),
    "store.limits": ("clear_limit", "list_limits", "set_limit"),
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that `tidegate --help` does not load the driver."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((module for module, names in _HOMES.items() if name in names), "errors")
    value: object = getattr(import_module(f"tidegate.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
