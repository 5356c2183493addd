"""Limit and Queue objects as the reconciler holds them: identity, spec as a model, and the status last seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal

from tidegate.errors import InvalidManifest
from tidegate.model.documents import API_VERSION
from tidegate.model.manifests import LimitManifest, QueueManifest, parse_manifest

GROUP: Final = API_VERSION.partition("/")[0]
"""API group of both kinds."""

VERSION: Final = API_VERSION.partition("/")[2]
"""API version of both kinds."""


class Kind(StrEnum):
    """The two kinds, by the word in ``kind``."""

    LIMIT = "Limit"
    QUEUE = "Queue"

    @property
    def plural(self) -> Literal["limits", "queues"]:
        """The word in the URL, and for the rows in the database."""
        return "limits" if self is Kind.LIMIT else "queues"


@dataclass(frozen=True)
class Identity:
    """One object, for as long as it lives: another of the same name has another uid."""

    kind: Kind
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True)
class Resource:
    """One object as it was last seen.

    ``manifest`` is None where this release cannot read the object, and ``problem`` then says why: the API server's
    schema may be another release's.
    """

    identity: Identity
    generation: int
    created_at: str
    version: str
    status: Mapping[str, Any]
    manifest: LimitManifest | QueueManifest | None
    problem: str = ""

    @property
    def row(self) -> str | None:
        """The limit key or queue name that the object is about."""
        if self.manifest is None:
            return None
        return self.manifest.key if isinstance(self.manifest, LimitManifest) else self.manifest.name


def read_resource(kind: Kind, raw: Mapping[str, Any], known: Resource | None = None) -> Resource:
    """Read an object of the API server; ``known`` is what was read of it before, whose spec is read only once."""
    metadata = raw["metadata"]
    generation = int(metadata.get("generation") or 0)
    manifest, problem = None, ""
    if known is not None and known.identity.uid == metadata["uid"] and known.generation == generation:
        manifest, problem = known.manifest, known.problem
    else:
        document = {
            "apiVersion": API_VERSION,
            "kind": kind.value,
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
            "spec": raw.get("spec"),
        }
        try:
            manifest = parse_manifest(document)
        except InvalidManifest as error:
            problem = str(error).replace("\n", "; ")
    return Resource(
        Identity(kind, metadata["namespace"], metadata["name"], metadata["uid"]),
        generation,
        str(metadata.get("creationTimestamp") or ""),
        str(metadata.get("resourceVersion") or ""),
        raw.get("status") or {},
        manifest,
        problem,
    )
