"""Limit and Queue objects on the API server: list, get, write a status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubernetes.aio import client

from tidegate_operator.cluster.clients import REQUEST_TIMEOUT, answer
from tidegate_operator.errors import ClusterRefused
from tidegate_operator.resources import GROUP, VERSION, Identity, Kind

FIELD_MANAGER = "tidegate-operator"
"""Under which the API server records what we write."""

PAGE = 500
"""Objects of one page of a list."""

NOT_FOUND = 404


class ObjectsApi:
    """What the reconciler asks of the API server; every call may raise ``ClusterUnavailable`` or ``ClusterRefused``."""

    def __init__(self, api: client.ApiClient) -> None:
        self._objects = client.CustomObjectsApi(api)
        self._core = client.CoreV1Api(api)

    async def served(self) -> frozenset[str]:
        """Return the plurals of our group that the API server serves now."""
        try:
            found: Any = await answer(
                self._objects.get_api_resources(GROUP, VERSION, _request_timeout=REQUEST_TIMEOUT),
                f"discovery of {GROUP}/{VERSION}",
            )
        except ClusterRefused as error:
            if error.status == NOT_FOUND:
                return frozenset()
            raise
        return frozenset(each.name for each in found.resources)

    async def list(self, kind: Kind, namespace: str | None) -> list[Mapping[str, Any]]:
        """Return every object of a kind, of one namespace or of all; the pages are of one moment."""
        items: list[Mapping[str, Any]] = []
        token: str | None = None
        where = f"list of {kind.plural}.{GROUP}" + (f" in namespace {namespace}" if namespace else "")
        while True:
            options: dict[str, Any] = {"limit": PAGE, "_request_timeout": REQUEST_TIMEOUT}
            if token:
                options["_continue"] = token
            if namespace:
                request = self._objects.list_namespaced_custom_object(GROUP, VERSION, namespace, kind.plural, **options)
            else:
                request = self._objects.list_cluster_custom_object(GROUP, VERSION, kind.plural, **options)
            page: Any = await answer(request, where)
            items += page["items"]
            token = page["metadata"].get("continue")
            if not token:
                return items

    async def reach(self, kind: Kind, namespace: str | None) -> None:
        """Try whether a kind may be listed, of one namespace or of all."""
        where = f"list of {kind.plural}.{GROUP}" + (f" in namespace {namespace}" if namespace else "")
        options: dict[str, Any] = {"limit": 1, "_request_timeout": REQUEST_TIMEOUT}
        if namespace:
            request = self._objects.list_namespaced_custom_object(GROUP, VERSION, namespace, kind.plural, **options)
        else:
            request = self._objects.list_cluster_custom_object(GROUP, VERSION, kind.plural, **options)
        await answer(request, where)

    async def get(self, identity: Identity) -> Mapping[str, Any] | None:
        """Return the object that has this name now, whatever its uid, or None when the API server knows none."""
        try:
            found: Any = await answer(
                self._objects.get_namespaced_custom_object(
                    GROUP,
                    VERSION,
                    identity.namespace,
                    identity.kind.plural,
                    identity.name,
                    _request_timeout=REQUEST_TIMEOUT,
                ),
                f"get of {identity}",
            )
        except ClusterRefused as error:
            if error.status == NOT_FOUND:
                return None
            raise
        return dict(found)

    async def patch_status(self, identity: Identity, patch: Mapping[str, Any]) -> Mapping[str, Any]:
        """Merge into the status of an object, and return the object."""
        found: Any = await answer(
            self._objects.patch_namespaced_custom_object_status(
                GROUP,
                VERSION,
                identity.namespace,
                identity.kind.plural,
                identity.name,
                {"status": dict(patch)},
                field_manager=FIELD_MANAGER,
                _request_timeout=REQUEST_TIMEOUT,
            ),
            f"status of {identity}",
        )
        return dict(found)

    async def cluster_id(self) -> str:
        """Return the uid of the namespace kube-system, which is the nearest that a cluster has to an id."""
        found: Any = await answer(
            self._core.read_namespace("kube-system", _request_timeout=REQUEST_TIMEOUT), "get of namespace kube-system"
        )
        return str(found.metadata.uid)
