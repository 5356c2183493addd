"""An operator in a namespace of its own, with the rights it needs there and no others, and its database."""

import json
from typing import Any

import psycopg
from psycopg.rows import dict_row

from tests.cluster.kubectls import Kubectl, KubectlError
from tests.cluster.waiting import eventually
from tidegate.model.documents import API_VERSION

OPERATOR = "localhost/tidegate-operator:0.1.0"

RIGHTS: list[dict[str, Any]] = [
    {"apiGroups": ["tidegate.dev"], "resources": ["limits", "queues"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["tidegate.dev"], "resources": ["limits/status", "queues/status"], "verbs": ["patch"]},
    {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get", "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": ["tidegate"],
        "verbs": ["get", "update"],
    },
]

RESTRICTED: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def limit(name: str = "vendor-x", **spec: object) -> dict[str, Any]:
    """A Limit object."""
    return {"apiVersion": API_VERSION, "kind": "Limit", "metadata": {"name": name}, "spec": spec}


def queue(name: str = "mail", **spec: object) -> dict[str, Any]:
    """A Queue object."""
    return {"apiVersion": API_VERSION, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def operator_objects(namespace: str) -> list[dict[str, Any]]:
    """Everything that an operator of one namespace consists of, but the Secret ``tidegate-database``."""
    name = "tidegate-operator"
    account = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    variables = {
        "TIDEGATE_NAMESPACES": namespace,
        "TIDEGATE_CLUSTER_ID": namespace,
        "TIDEGATE_DATABASE_URL_FILE": "/etc/tidegate/url",
    }
    container = {
        "name": "operator",
        "image": OPERATOR,
        "env": [{"name": key, "value": value} for key, value in variables.items()],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8080}, "periodSeconds": 1},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10, "timeoutSeconds": 5},
        "securityContext": RESTRICTED,
        "volumeMounts": [{"name": "database", "mountPath": "/etc/tidegate", "readOnly": True}],
    }
    pod = {
        "serviceAccountName": name,
        "terminationGracePeriodSeconds": 10,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "database", "secret": {"secretName": "tidegate-database"}}],
    }
    labels = {"app": name}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name}, "rules": RIGHTS},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": name},
            "roleRef": role,
            "subjects": [account],
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
    ]


class Installation:
    """A namespace with an operator in it, and a connection to its database."""

    def __init__(self, kubectl: Kubectl, database_url: str) -> None:
        self.kubectl = kubectl
        self.database_url = database_url
        kubectl("create", "secret", "generic", "tidegate-database", f"--from-literal=url={database_url}")
        kubectl.apply(*operator_objects(kubectl.namespace))
        try:
            kubectl("rollout", "status", "deployment/tidegate-operator", "--timeout=60s")
        except KubectlError as error:
            raise KubectlError(f"{error}\n{self.story()}") from None

    def story(self) -> str:
        """What the operator's pods and their logs say, for a failure."""
        pods = self.kubectl("describe", "pods", "--selector=app=tidegate-operator")
        logs = self.kubectl("logs", "--selector=app=tidegate-operator", "--tail=40", "--ignore-errors")
        return f"{pods}\n{logs}"

    def rows(self, statement: str, *arguments: object) -> list[dict[str, Any]]:
        """What a statement returns, in a session and a transaction of its own."""
        with psycopg.connect(self.database_url, autocommit=True, row_factory=dict_row) as connection:
            cursor = connection.execute(statement.encode(), arguments)
            return cursor.fetchall() if cursor.description else []

    def policy(self, key: str) -> dict[str, Any] | None:
        """The policy of a key in the database, and who owns it."""
        found = self.rows("select max_running, max_starts, rate_window, owner from tidegate.limits where key = %s", key)
        return found[0] if found else None

    def enqueue(self, queue: str, actor: str, payload: object, limit_key: str = "") -> int:
        """Enqueue a job and return its id."""
        (row,) = self.rows(
            "select id from tidegate.enqueue(%s, %s, payload => %s::jsonb, limit_key => %s)",
            queue,
            actor,
            json.dumps(payload),
            limit_key,
        )
        return int(row["id"])

    def wait_for_ready(self, *names: str) -> None:
        """Wait until the objects, as in ``limit/vendor-x``, are in force in their present generation."""
        self.kubectl("wait", "--for=condition=Ready", "--timeout=60s", *names)

    def wait_for_reason(self, name: str, reason: str) -> dict[str, Any]:
        """Wait until an object's condition Ready has this reason, and return the condition."""

        def look() -> dict[str, Any] | None:
            conditions = self.kubectl.object(name).get("status", {}).get("conditions", [])
            return next((each for each in conditions if each["type"] == "Ready" and each["reason"] == reason), None)

        return eventually(look, f"{name} says {reason}")
