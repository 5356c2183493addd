"""What differs between the two kinds where the rule is the same: who asks for what, and what the database is told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidegate.model.ownership import Ownership
from tidegate_operator.reconcile.limits import limit_changes, limit_claims, limit_end
from tidegate_operator.reconcile.ownership import Claim, RowWrite
from tidegate_operator.reconcile.patterns import KeyPatterns
from tidegate_operator.reconcile.queues import queue_changes, queue_claims, queue_end
from tidegate_operator.resources import Kind, Resource


def claims_of(
    kind: Kind, resources: Iterable[Resource], patterns: KeyPatterns, fresh: frozenset[str]
) -> dict[str, list[Claim]]:
    """Return what objects of a kind ask for, by row. ``fresh`` are uids that were just read from the API server."""
    found = limit_claims(resources, patterns, fresh) if kind is Kind.LIMIT else queue_claims(resources, fresh)
    claims: dict[str, list[Claim]] = {}
    for each in found:
        claims.setdefault(each.row, []).append(each)
    return claims


def changes_of(kind: Kind, write: RowWrite) -> dict[str, Any]:
    """Return the changes that make a row what its object asks for."""
    return limit_changes(write) if kind is Kind.LIMIT else queue_changes(write)


def end_of(kind: Kind, owner: Ownership, row: str) -> dict[str, Any]:
    """Return the changes for a row whose object is gone."""
    return limit_end(owner, row) if kind is Kind.LIMIT else queue_end(row)
