"""Helm as a person uses it, and the charts of this repository."""

import json
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ruamel.yaml import YAML

CHARTS = Path(__file__).resolve().parents[2] / "charts"

OPERATOR = str(CHARTS / "tidegate")
WORKERS = str(CHARTS / "tidegate-worker")

VERSION: str = YAML(typ="safe").load(CHARTS / "tidegate" / "Chart.yaml")["appVersion"]
"""Tag of the images that the charts of this work tree belong to."""

TIMEOUT = 180
"""Seconds for one command."""

SMALL = {"requests": {"cpu": "10m", "memory": "64Mi"}}
"""What a pod asks for here: the node is shared with everything else of a test."""


class Helm:
    """Runs helm in one namespace."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace

    def __call__(self, *arguments: str, values: dict[str, Any] | None = None) -> str:
        """Return what a command prints; values go to it as a file."""
        given = [] if values is None else ["--values", "-"]
        done = subprocess.run(
            ["helm", "--namespace", self.namespace, *arguments, *given],
            input=None if values is None else json.dumps(values),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def operator_values(database_url: str, *namespaces: str) -> dict[str, Any]:
    """Values for an operator of these namespaces, of the whole cluster where none is named."""
    values: dict[str, Any] = {
        "image": {"repository": "localhost/tidegate-operator", "tag": VERSION},
        # those of the session are in force already, and belong to no release
        "crds": {"install": False},
        "database": {"port": urlsplit(database_url).port},
        "replicas": 1,
        "resources": SMALL,
    }
    if namespaces:
        values |= {"namespaces": list(namespaces), "clusterId": namespaces[0]}
    return values


def operator_rights(namespace: str) -> list[dict[str, Any]]:
    """The rules that the chart gives an operator which lives in this namespace and watches no other."""
    values = {"namespaces": [namespace], "clusterId": namespace}
    rendered = Helm(namespace)("template", "tidegate", OPERATOR, "--show-only", "templates/rbac.yaml", values=values)
    roles = [each for each in YAML(typ="safe").load_all(rendered) if each["kind"] == "Role"]
    assert len(roles) == 2
    return [rule for role in roles for rule in role["rules"]]
