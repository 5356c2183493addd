"""The operator's chart in a namespace of its own, with rights there and nowhere else, and its database."""

import json
from typing import Any

import psycopg
from psycopg.rows import dict_row

from tests.cluster.helms import OPERATOR, Helm, operator_values
from tests.cluster.kubectls import Kubectl, KubectlError
from tests.cluster.waiting import eventually
from tidegate.model.documents import API_VERSION

PODS = "--selector=app.kubernetes.io/instance=tidegate"
"""Which pods are the operator's, for kubectl."""


def limit(name: str = "vendor-x", **spec: object) -> dict[str, Any]:
    """A Limit object."""
    return {"apiVersion": API_VERSION, "kind": "Limit", "metadata": {"name": name}, "spec": spec}


def queue(name: str = "mail", **spec: object) -> dict[str, Any]:
    """A Queue object."""
    return {"apiVersion": API_VERSION, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


class Rows:
    """What statements return, each in a session and a transaction of its own."""

    def __init__(self, database_url: str) -> None:
        self._url = database_url

    def __call__(self, statement: str, *arguments: object) -> list[dict[str, Any]]:
        """Return the rows of a statement."""
        with psycopg.connect(self._url, autocommit=True, row_factory=dict_row) as connection:
            # without arguments several statements may come as one
            cursor = connection.execute(statement.encode(), arguments or None)
            return cursor.fetchall() if cursor.description else []

    def caps(self) -> dict[str, int]:
        """Every key with a policy, and how many of its jobs may run."""
        return {row["key"]: row["max_running"] for row in self("select key, max_running from tidegate.limits")}


class Installation:
    """A namespace with the operator's chart installed in it, and its database.

    Args:
        kubectl: works in the namespace.
        database_url: URL of the database, as pods reach it.
        values: values of the chart beside those of `operator_values`.
    """

    def __init__(self, kubectl: Kubectl, database_url: str, **values: Any) -> None:
        self.kubectl = kubectl
        self.database_url = database_url
        self.rows = Rows(database_url)
        self.helm = Helm(kubectl.namespace)
        kubectl("create", "secret", "generic", "tidegate-database", f"--from-literal=url={database_url}")
        whole = {**operator_values(database_url, kubectl.namespace), **values}
        self.helm("install", "tidegate", OPERATOR, values=whole)
        self.wait_for_operator()

    def wait_for_operator(self) -> None:
        """Wait until the operator's pods are ready."""
        try:
            self.kubectl("rollout", "status", "deployment/tidegate", "--timeout=60s")
        except KubectlError as error:
            raise KubectlError(f"{error}\n{self.story()}") from None

    def story(self) -> str:
        """What the operator's pods and their logs say, for a failure."""
        pods = self.kubectl("describe", "pods", PODS)
        logs = self.kubectl("logs", PODS, "--tail=40", "--ignore-errors")
        return f"{pods}\n{logs}"

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
