"""Limits: what objects ask of keys, as claims, and what the database is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidegate.model.durations import format_duration
from tidegate.model.limits import LimitPolicy
from tidegate.model.manifests import LimitManifest
from tidegate.model.ownership import Ownership
from tidegate_operator.reconcile.ownership import Claim, RowWrite
from tidegate_operator.reconcile.patterns import KeyPatterns
from tidegate_operator.resources import Resource


def limit_claims(resources: Iterable[Resource], patterns: KeyPatterns, fresh: frozenset[str]) -> list[Claim]:
    """Return what these objects ask for; one that cannot be read asks for nothing."""
    return [
        _claim(each, each.manifest, patterns, fresh) for each in resources if isinstance(each.manifest, LimitManifest)
    ]


def _claim(resource: Resource, manifest: LimitManifest, patterns: KeyPatterns, fresh: frozenset[str]) -> Claim:
    identity = resource.identity
    return Claim(
        uid=identity.uid,
        namespace=identity.namespace,
        name=identity.name,
        created_at=resource.created_at,
        generation=resource.generation,
        row=manifest.key,
        fields=manifest.to_limit_policy().model_dump(),
        grace=manifest.spec.deletion_grace_period,
        retain=manifest.spec.deletion_policy == "Retain",
        allowed=patterns.allows(identity.namespace, manifest.key),
        fresh=identity.uid in fresh,
    )


def limit_changes(write: RowWrite) -> dict[str, Any]:
    """The changes of ``change_limit`` that bring the key to what the object asks for, with its owner."""
    return {**LimitPolicy(**write.claim.fields).to_change().to_changes(), "owner": write.owner.to_json()}


def marked(owner: Ownership) -> dict[str, Any]:
    """The changes that mark an owner, as gone or in another way, and leave the row itself alone."""
    return {"owner": owner.to_json()}


def limit_end(owner: Ownership, key: str) -> dict[str, Any]:
    """The changes for a key whose object is gone: under Delete no policy, under Retain the policy without an owner."""
    kept: Mapping[str, Any] = {} if owner.retain else LimitPolicy(key=key).to_change().to_changes()
    return {**kept, "owner": None}


def describe_limit(manifest: LimitManifest) -> str:
    """Return what is in force, in a few words: ``at most 4 running, at most 100 starts in any 1m``."""
    policy = manifest.to_limit_policy()
    parts = []
    if policy.max_running is not None:
        parts.append(f"at most {policy.max_running} running" if policy.max_running else "nothing may run")
    if policy.max_starts is not None and policy.window is not None:
        parts.append(f"at most {policy.max_starts} starts in any {format_duration(policy.window)}")
    if policy.weight is not None:
        parts.append(f"weight {policy.weight}")
    return f"{manifest.key}: {', '.join(parts)}"
