"""Limits: set, clear and list them, in the caller's transaction."""

import json
from collections.abc import Awaitable
from datetime import timedelta
from typing import Any, overload

from tidegate.errors import InvalidLimit
from tidegate.model.fields import UNSET, Unset
from tidegate.model.limits import LimitChange, LimitPolicy, LimitStatus
from tidegate.model.names import check_name
from tidegate.routing.senders import AnySession, AsyncSession, SyncSession
from tidegate.store.engine import Engine
from tidegate.store.replies import every, first, with_spans
from tidegate.store.sessions import Query, run


@overload
def set_limit(
    session: AsyncSession | Engine,
    key: str,
    *,
    max_running: int | Unset | None = UNSET,
    max_starts: int | Unset | None = UNSET,
    window: timedelta | Unset | None = UNSET,
    weight: int | Unset | None = UNSET,
) -> Awaitable[LimitPolicy]: ...
@overload
def set_limit(
    session: SyncSession,
    key: str,
    *,
    max_running: int | Unset | None = UNSET,
    max_starts: int | Unset | None = UNSET,
    window: timedelta | Unset | None = UNSET,
    weight: int | Unset | None = UNSET,
) -> LimitPolicy: ...
def set_limit(
    session: AnySession | Engine,
    key: str,
    *,
    max_running: int | Unset | None = UNSET,
    max_starts: int | Unset | None = UNSET,
    window: timedelta | Unset | None = UNSET,
    weight: int | Unset | None = UNSET,
) -> LimitPolicy | Awaitable[LimitPolicy]:
    """Set parts of a key's limit, cluster-wide over all queues and workers; the next claim after the commit obeys.

    What is left out keeps its value, None removes that part, ``max_starts=None`` with its window. No job is rewritten.
    The key stays locked until the caller's transaction ends: its jobs start nowhere meanwhile, other keys' jobs do.

    Args:
        session: one of the kinds in ``tidegate.store.sessions.KINDS``; an engine makes a transaction of its own.
        key: the ``limit_key`` that jobs carry, 1 to 200 characters.
        max_running: jobs of the key that may run at once, 0 to 1,000,000; 0 holds all of them back.
        max_starts: jobs of the key that may start within any ``window``, 0 to 1,000,000.
        window: length of the sliding window, 100 ms to 24 h.
        weight: the key's share in fair order, 1 to 1000.

    Returns:
        The policy now in force, at once on a synchronous session, else when awaited.

    Raises:
        InvalidLimit, InvalidName: an argument breaks its rule (nothing was sent), or the rate would lack one half.
        ConfigurationError: the session is of no supported kind.
    """
    change = LimitChange(key, max_running=max_running, max_starts=max_starts, window=window, weight=weight)
    return run(session, Query("set_limit", (key, json.dumps(change.to_changes())), _policy, InvalidLimit))


@overload
def clear_limit(session: AsyncSession | Engine, key: str) -> Awaitable[bool]: ...
@overload
def clear_limit(session: SyncSession, key: str) -> bool: ...
def clear_limit(session: AnySession | Engine, key: str) -> bool | Awaitable[bool]:
    """Remove a key's policy and its start marks: the key is unlimited, and a later ``set_limit`` counts from zero.

    Returns:
        Whether there was a policy, at once on a synchronous session, else when awaited.

    Raises:
        InvalidName: the key is no legal key; nothing was sent.
        ConfigurationError: the session is of no supported kind.
    """
    check_name(key, "key")
    return run(session, Query("clear_limit", (key,), _truth, InvalidLimit))


@overload
def list_limits(session: AsyncSession | Engine) -> Awaitable[list[LimitStatus]]: ...
@overload
def list_limits(session: SyncSession) -> list[LimitStatus]: ...
def list_limits(session: AnySession | Engine) -> list[LimitStatus] | Awaitable[list[LimitStatus]]:
    """Return every policy with its live use over all queues and workers, by key.

    Raises:
        ConfigurationError: the session is of no supported kind.
    """
    return run(session, Query("list_limits", (), _statuses))


def _policy(rows: list[str | None]) -> LimitPolicy:
    return LimitPolicy.model_validate(with_spans(first(rows), ("window",)))


def _statuses(rows: list[str | None]) -> list[LimitStatus]:
    return [LimitStatus.model_validate(with_spans(row, ("window",))) for row in every(rows)]


def _truth(rows: list[str | None]) -> Any:
    return first(rows)
