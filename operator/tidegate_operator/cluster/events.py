"""Events on our objects, of the group events.k8s.io, for ``kubectl describe``."""

from __future__ import annotations

from datetime import UTC, datetime

from kubernetes.aio import client

from tidegate.model.documents import API_VERSION
from tidegate_operator.cluster.clients import REQUEST_TIMEOUT, answer
from tidegate_operator.resources import Identity

CONTROLLER = "tidegate.dev/operator"
MAX_NOTE = 1_024
"""Most characters of an Event's note; the API server refuses more."""

MAX_PREFIX = 200
"""Most characters of the object's name in the Event's; the server adds a few, and 253 is the most."""


class EventsApi:
    """Writes Events; ``instance`` is this process, as the pod's name."""

    def __init__(self, api: client.ApiClient, instance: str) -> None:
        self._events = client.EventsV1Api(api)
        self._instance = instance

    async def create(self, identity: Identity, reason: str, message: str, *, warning: bool) -> None:
        """Create one Event; ``ClusterUnavailable`` and ``ClusterRefused`` as everywhere."""
        # a generated name must not have a dot before its dash
        prefix = identity.name[:MAX_PREFIX].rstrip(".-")
        event = client.EventsV1Event(
            metadata=client.V1ObjectMeta(generate_name=f"{prefix}-", namespace=identity.namespace),
            event_time=datetime.now(UTC),
            action="Reconcile",
            reason=reason,
            type="Warning" if warning else "Normal",
            note=message[:MAX_NOTE],
            reporting_controller=CONTROLLER,
            reporting_instance=self._instance,
            regarding=client.V1ObjectReference(
                api_version=API_VERSION,
                kind=identity.kind.value,
                name=identity.name,
                namespace=identity.namespace,
                uid=identity.uid,
            ),
        )
        request = self._events.create_namespaced_event(identity.namespace, event, _request_timeout=REQUEST_TIMEOUT)
        await answer(request, f"event on {identity}")
