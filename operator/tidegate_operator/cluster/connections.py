"""Everything of the API server that the process needs, behind one connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from kubernetes.aio import client

from tidegate_operator.cluster.clients import Access, load_configuration, read_access
from tidegate_operator.cluster.deployments import DeploymentsApi
from tidegate_operator.cluster.elector import Elector, LeaseTimes
from tidegate_operator.cluster.events import EventsApi
from tidegate_operator.cluster.objects import ObjectsApi


@dataclass(frozen=True)
class Cluster:
    """One API server."""

    objects: ObjectsApi
    events: EventsApi
    deployments: DeploymentsApi
    _configuration: client.Configuration
    _api: client.ApiClient

    async def access(self) -> Access:
        """Return how another client reaches it today."""
        return await read_access(self._configuration)

    def elector(self, namespace: str, name: str, me: str, times: LeaseTimes) -> Elector:
        """Return a candidate for a Lease there."""
        return Elector(self._api, namespace, name, me, times)


@asynccontextmanager
async def connect(instance: str) -> AsyncIterator[Cluster]:
    """Lend a connection for as long as the block runs; ``instance`` signs our Events.

    Raises:
        ConfigurationError: neither a service account nor a kubeconfig is here.
    """
    configuration = await load_configuration()
    async with client.ApiClient(configuration) as api:
        yield Cluster(ObjectsApi(api), EventsApi(api, instance), DeploymentsApi(api), configuration, api)
