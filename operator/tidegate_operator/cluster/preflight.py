"""What has to be true before the watch begins: a missing definition or right would otherwise deafen or end it late."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.errors import ConfigurationError
from tidegate_operator.cluster.objects import ObjectsApi
from tidegate_operator.errors import ClusterRefused
from tidegate_operator.resources import GROUP, VERSION, Kind


async def check(objects: ObjectsApi, namespaces: Sequence[str]) -> None:
    """Look for both kinds in discovery and list both in every namespace; none named means the whole cluster.

    Raises:
        ConfigurationError: something is missing; the message names all of it.
        ClusterUnavailable: no answer.
    """
    served = await objects.served()
    problems = [
        f"the API server does not serve {kind.plural}.{GROUP}/{VERSION}; apply crds/{kind.plural}.yaml, or install the"
        " chart with crds.install=true"
        for kind in Kind
        if kind.plural not in served
    ]
    if not problems:
        for namespace in (*namespaces,) or (None,):
            for kind in Kind:
                try:
                    await objects.list(kind, namespace)
                except ClusterRefused as error:
                    where = f"namespace {namespace}" if namespace else "the cluster"
                    problems.append(
                        f"this service account may not list {kind.plural}.{GROUP} in {where} ({error}); bind the"
                        " chart's Role there, or leave the namespace out"
                    )
    if problems:
        raise ConfigurationError("\n".join(problems))
