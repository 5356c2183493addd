"""What has to be true before the watch begins: a missing definition or right would otherwise deafen or end it late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tidegate.errors import ConfigurationError
from tidegate_operator.errors import ClusterRefused
from tidegate_operator.resources import GROUP, VERSION, Kind


class ReachT(Protocol):
    """What is asked of the API server."""

    async def served(self) -> frozenset[str]:
        """Return the plurals that are served."""

    async def reach(self, kind: Kind, namespace: str | None) -> None:
        """Try whether a kind may be listed; raises as every request does."""


async def check(objects: ReachT, namespaces: Sequence[str]) -> None:
    """Look for both kinds in discovery and try to list both in every namespace; none named means the whole cluster.

    One namespace that may be read is enough: the watch says of the others that they may not be, and tries them again.

    Raises:
        ConfigurationError: nothing can be read; the message names all that is missing.
        ClusterUnavailable: no answer.
    """
    served = await objects.served()
    problems = [
        f"the API server does not serve {kind.plural}.{GROUP}/{VERSION}; apply crds/{kind.plural}.yaml, or install the"
        " chart with crds.install=true"
        for kind in Kind
        if kind.plural not in served
    ]
    readable = 0
    if not problems:
        for namespace in (*namespaces,) or (None,):
            before = len(problems)
            for kind in Kind:
                try:
                    await objects.reach(kind, namespace)
                except ClusterRefused as error:
                    where = f"namespace {namespace}" if namespace else "the cluster"
                    problems.append(
                        f"this service account may not list {kind.plural}.{GROUP} in {where} ({error}); bind the"
                        " chart's Role there, or leave the namespace out"
                    )
            readable += len(problems) == before
    if not readable:
        raise ConfigurationError("\n".join(problems))
