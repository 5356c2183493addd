"""Objects as the API server sends them, for the tests of the operator's decisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate_operator.resources import Kind, Resource, read_resource


def raw(
    uid: str = "u1",
    *,
    name: str = "vendor-x",
    namespace: str = "team",
    generation: int = 1,
    version: str = "1",
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    return {
        "metadata": {
            "uid": uid,
            "name": name,
            "namespace": namespace,
            "generation": generation,
            "resourceVersion": version,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"maxRunning": 4} if spec is None else spec,
        "status": status or {},
    }


def limit(uid: str = "u1", **parts: Any) -> Resource:
    return read_resource(Kind.LIMIT, raw(uid, **parts))


def queue(uid: str = "q1", *, name: str = "mail", spec: Mapping[str, Any] | None = None, **parts: Any) -> Resource:
    return read_resource(Kind.QUEUE, raw(uid, name=name, spec={} if spec is None else spec, **parts))
