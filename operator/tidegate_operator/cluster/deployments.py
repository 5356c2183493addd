"""Deployments, by their scale and their pods alone: nothing else of them is read, nothing but replicas is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from kubernetes.aio import client

from tidegate_operator.cluster.clients import REQUEST_TIMEOUT, answer
from tidegate_operator.cluster.objects import FIELD_MANAGER, NOT_FOUND
from tidegate_operator.errors import ClusterRefused
from tidegate_operator.reconcile.scaling_observations import Pod

TEMPLATE_LABEL: Final = "pod-template-hash"
FORBIDDEN: Final = 403
CONFLICT: Final = 409


@dataclass(frozen=True)
class Scale:
    """``deployments/scale``: ``selector`` as text, ``version`` guards a write."""

    replicas: int
    version: str
    selector: str


class DeploymentsApi:
    """What scaling asks of the API server; every call may raise ``ClusterUnavailable`` or ``ClusterRefused``."""

    def __init__(self, api: client.ApiClient) -> None:
        self._apps = client.AppsV1Api(api)
        self._core = client.CoreV1Api(api)
        self._autoscaling = client.AutoscalingV2Api(api)

    async def scale(self, namespace: str, name: str) -> Scale | None:
        """Return the scale of a Deployment, None where there is no such Deployment."""
        try:
            found: Any = await answer(
                self._apps.read_namespaced_deployment_scale(name, namespace, _request_timeout=REQUEST_TIMEOUT),
                f"scale of Deployment {namespace}/{name}",
            )
        except ClusterRefused as error:
            if error.status == NOT_FOUND:
                return None
            raise
        selector = (found.status.selector if found.status else None) or ""
        return Scale(found.spec.replicas or 0, found.metadata.resource_version, selector)

    async def set_scale(self, namespace: str, name: str, replicas: int, version: str) -> bool:
        """Write the replicas of the version that was read; False where somebody else wrote meanwhile."""
        patch = {"metadata": {"resourceVersion": version}, "spec": {"replicas": replicas}}
        try:
            await answer(
                self._apps.patch_namespaced_deployment_scale(
                    name, namespace, patch, field_manager=FIELD_MANAGER, _request_timeout=REQUEST_TIMEOUT
                ),
                f"scale of Deployment {namespace}/{name}",
            )
        except ClusterRefused as error:
            if error.status in {CONFLICT, NOT_FOUND}:
                return False
            raise
        return True

    async def pods(self, namespace: str, selector: str) -> list[Pod]:
        """Return the pods that a selector matches."""
        found: Any = await answer(
            self._core.list_namespaced_pod(namespace, label_selector=selector, _request_timeout=REQUEST_TIMEOUT),
            f"list of pods in namespace {namespace}",
        )
        now = datetime.now(UTC)
        # a pod that has ended is no replica any more, and its Deployment has another one in its place
        return [read_pod(each, now) for each in found.items if each.status.phase not in {"Succeeded", "Failed"}]

    async def autoscalers(self, namespace: str) -> dict[str, Sequence[str]]:
        """Return the names of the HorizontalPodAutoscalers of a namespace, by the Deployment that each targets.

        Without the right to see them none is returned: another autoscaler is then known by what it writes.
        """
        try:
            found: Any = await answer(
                self._autoscaling.list_namespaced_horizontal_pod_autoscaler(
                    namespace, _request_timeout=REQUEST_TIMEOUT
                ),
                f"list of HorizontalPodAutoscalers in namespace {namespace}",
            )
        except ClusterRefused as error:
            if error.status in {FORBIDDEN, NOT_FOUND}:
                return {}
            raise
        targets: dict[str, list[str]] = {}
        for each in found.items:
            target = each.spec.scale_target_ref
            if target.kind == "Deployment":
                targets.setdefault(target.name, []).append(f"HorizontalPodAutoscaler {each.metadata.name}")
        return dict(targets)


def read_pod(found: Any, now: datetime) -> Pod:
    """Return a pod of the client as scaling takes it; a pod without a condition Ready was never ready."""
    ready = next((each for each in found.status.conditions or [] if each.type == "Ready"), None)
    is_ready = ready is not None and ready.status == "True"
    since = (ready.last_transition_time if ready is not None else None) or found.metadata.creation_timestamp
    return Pod(
        name=found.metadata.name,
        ready=is_ready,
        age=max(0.0, (now - found.metadata.creation_timestamp).total_seconds()),
        unready=0.0 if is_ready else max(0.0, (now - since).total_seconds()),
        template=(found.metadata.labels or {}).get(TEMPLATE_LABEL, ""),
        terminating=found.metadata.deletion_timestamp is not None,
    )
