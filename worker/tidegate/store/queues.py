"""Queues: list them, change their settings, hold them by hand."""

import json
from collections.abc import Awaitable, Mapping
from typing import overload

from tidegate.errors import InvalidQueue
from tidegate.model.names import check_name
from tidegate.model.queues import QueueSpec, QueueStatus
from tidegate.routing.senders import AnySession, AsyncSession, SyncSession
from tidegate.store.engine import Engine
from tidegate.store.replies import every, first, with_spans
from tidegate.store.sessions import Query, run

_SPANS = ("default_timeout", "keep_succeeded", "keep_dead")


@overload
def list_queues(session: AsyncSession | Engine) -> Awaitable[list[QueueStatus]]: ...
@overload
def list_queues(session: SyncSession) -> list[QueueStatus]: ...
def list_queues(session: AnySession | Engine) -> list[QueueStatus] | Awaitable[list[QueueStatus]]:
    """Return every known queue with its counts and live workers, by name."""
    return run(session, Query("list_queues", (), _statuses))


@overload
def set_queue(session: AsyncSession | Engine, name: str, changes: Mapping[str, object]) -> Awaitable[QueueSpec]: ...
@overload
def set_queue(session: SyncSession, name: str, changes: Mapping[str, object]) -> QueueSpec: ...
def set_queue(
    session: AnySession | Engine, name: str, changes: Mapping[str, object]
) -> QueueSpec | Awaitable[QueueSpec]:
    """Change settings of a queue, which is made when it is not known yet; the next claim obeys.

    Args:
        session: one of the kinds in ``tidegate.store.sessions.KINDS``; an engine makes a transaction of its own.
        name: the queue, 1 to 200 characters.
        changes: what ``QueueSpec.to_changes`` gives or some of it, and ``held_by_hand`` or ``owner``; spans in seconds.
            What is left out keeps its value, None takes the built-in default.

    Raises:
        InvalidQueue, InvalidName: a setting breaks its rule.
    """
    check_name(name, "queue")
    return run(session, Query("set_queue", (name, json.dumps(dict(changes))), _spec, InvalidQueue))


@overload
def suspend_queue(session: AsyncSession | Engine, name: str) -> Awaitable[QueueSpec]: ...
@overload
def suspend_queue(session: SyncSession, name: str) -> QueueSpec: ...
def suspend_queue(session: AnySession | Engine, name: str) -> QueueSpec | Awaitable[QueueSpec]:
    """Hold a queue by hand: nobody claims from it, running jobs go on, and no operator undoes it."""
    return set_queue(session, name, {"held_by_hand": True})


@overload
def resume_queue(session: AsyncSession | Engine, name: str) -> Awaitable[QueueSpec]: ...
@overload
def resume_queue(session: SyncSession, name: str) -> QueueSpec: ...
def resume_queue(session: AnySession | Engine, name: str) -> QueueSpec | Awaitable[QueueSpec]:
    """End what `suspend_queue` began. The queue's own ``suspended`` is left: an object may say so, or have said so."""
    return set_queue(session, name, {"held_by_hand": False})


def _spec(rows: list[str | None]) -> QueueSpec:
    return QueueSpec.model_validate(with_spans(first(rows), _SPANS))


def _statuses(rows: list[str | None]) -> list[QueueStatus]:
    return [QueueStatus.model_validate(row) for row in every(rows)]
