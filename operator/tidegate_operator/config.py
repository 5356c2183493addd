"""The operator's settings, each a flag and a ``TIDEGATE_*`` variable, judged before anything is touched."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tidegate.errors import ConfigurationError, InvalidInput
from tidegate.model.names import check_name
from tidegate_operator.reconcile.patterns import KeyPatterns

NUMBERS_EVERY: Final = 2.0
"""Seconds between two looks at live numbers."""

DRIFT_EVERY: Final = 60.0
"""Seconds between two comparisons of every row with its object."""

LIST_EVERY: Final = 600.0
"""Seconds between two full lists: a watch may miss a deletion and never say so."""

SWEEP_A_MINUTE: Final = 10
"""Rows that may be given up within a minute, because their objects are gone."""


@dataclass(frozen=True)
class Config:
    """Everything that an operator is told.

    Args:
        database_url_file: file with the URL of the database, read again whenever it may have changed.
        database_url: the URL itself, where there is no file.
        listen_url_file: file with another URL for notifications, where the first goes through a pooler.
        namespaces: those to watch; empty for the whole cluster.
        cluster_id: under which rows are marked; None takes the uid of the namespace kube-system, which only an operator
            of the whole cluster may read.
        former_cluster_ids: ids under which this cluster's rows were marked before; they are taken over.
        patterns: which keys a namespace may own.
        lease_namespace: where the Lease of the leader lies.
        lease_name: its name.
        identity: this process, as the pod's name.
        migrate: bring the schema to this release on taking office.
        port: of liveness, readiness and metrics.
        sweep_a_minute: rows given up within a minute at most.
        numbers_every, drift_every, list_every: seconds between two of each.
    """

    database_url_file: Path | None = None
    database_url: str | None = None
    listen_url_file: Path | None = None
    namespaces: tuple[str, ...] = ()
    cluster_id: str | None = None
    former_cluster_ids: tuple[str, ...] = ()
    patterns: KeyPatterns = field(default_factory=KeyPatterns)
    lease_namespace: str = "default"
    lease_name: str = "tidegate"
    identity: str = "tidegate-operator"
    migrate: bool = True
    port: int = 8080
    sweep_a_minute: int = SWEEP_A_MINUTE
    numbers_every: float = NUMBERS_EVERY
    drift_every: float = DRIFT_EVERY
    list_every: float = LIST_EVERY

    def __post_init__(self) -> None:
        if (self.database_url is None) == (self.database_url_file is None):
            raise ConfigurationError(
                "name the database once: --database-url-file with a mounted file (TIDEGATE_DATABASE_URL_FILE), or"
                " --database-url (TIDEGATE_DATABASE_URL)"
            )
        if self.namespaces and self.cluster_id is None:
            raise ConfigurationError(
                "an operator of some namespaces may not read the cluster's own id; give it one that no other cluster on"
                " this database has, with --cluster-id or TIDEGATE_CLUSTER_ID"
            )
        if self.cluster_id is not None:
            check_name(self.cluster_id, "--cluster-id")
        for former in self.former_cluster_ids:
            check_name(former, "--former-cluster-id")


def read_names(text: Sequence[str]) -> tuple[str, ...]:
    """Return names, without repeats, from flags or from a variable that holds several divided by blanks."""
    return tuple(dict.fromkeys(name for part in text for name in part.replace(",", " ").split()))


def read_patterns(text: str | None) -> KeyPatterns:
    """Read key patterns from JSON: ``{"team-a": ["team-a-*"], "*": []}``.

    Raises:
        ConfigurationError: it is no JSON object of lists of text.
    """
    if not text or not text.strip():
        return KeyPatterns()
    try:
        entries = json.loads(text)
    except ValueError as error:
        raise _bad_patterns(f"is no JSON: {error}") from None
    if not isinstance(entries, Mapping):
        raise _bad_patterns("is no object")
    for namespace, patterns in entries.items():
        if not isinstance(patterns, list) or not all(isinstance(each, str) for each in patterns):
            raise _bad_patterns(f"has no list of texts for {namespace}")
    return KeyPatterns(entries)


def _bad_patterns(what: str) -> InvalidInput:
    return InvalidInput("--key-patterns", f'{what}; write it like {{"team-a": ["team-a-*"], "*": ["{{namespace}}/*"]}}')
