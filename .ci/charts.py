"""What is generated of the charts: README.md and values.schema.json from values.yaml, and the definitions from crds/.

``write`` makes them, ``check`` fails when they differ. In values.yaml every value has a comment ``# -- ...``, which is
its documentation. The schema refuses keys that values.yaml does not have; what holds free keys there ({}) does so here.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from generated import ROOT, run
from ruamel.yaml import YAML

CHARTS = ROOT / "charts"

CHOICES: dict[str, list[str]] = {
    "image.pullPolicy": ["Always", "IfNotPresent", "Never"],
    "log.format": ["text", "json"],
    "log.level": ["debug", "info", "warning", "error"],
}

BOUNDS: dict[str, tuple[int, int]] = {
    "replicas": (0, 10),
    "sweepAMinute": (1, 100_000),
    "database.port": (1, 65_535),
    "slots": (1, 10_000),
    "graceSeconds": (0, 86_400),
}

ITEMS: dict[str, dict[str, Any]] = {
    "namespaces": {"type": "string", "minLength": 1},
    "formerClusterIds": {"type": "string", "minLength": 1},
    "networkPolicy.apiServerPorts": {"type": "integer", "minimum": 1, "maximum": 65_535},
}
"""What a list holds where that is not an object."""

PATTERNS: dict[str, str] = {"image.digest": "^(sha256:[0-9a-f]{64})?$", "app": "^[A-Za-z_][\\w.]*:[A-Za-z_]\\w*$"}

FREE = re.compile(r"^(resources|keyPatterns|queues|limits)$|[aA]nnotations$|[lL]abels$|nodeSelector$|affinity$")
"""Values whose keys are the user's, or Kubernetes' own."""


def specs(plural: str) -> dict[str, Any]:
    """Return the schema of one object's spec, as the definition has it, without what helm's validator does not know."""
    definition = YAML(typ="safe").load((ROOT / "crds" / f"{plural}.yaml").read_text(encoding="utf-8"))
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return dict(_closed(schema, plural))


def _closed(schema: dict[str, Any], plural: str) -> dict[str, Any]:
    kept = {
        key: value for key, value in schema.items() if not key.startswith("x-") and key not in ("default", "format")
    }
    if "properties" in schema:
        kept["properties"] = {key: _closed(value, plural) for key, value in schema["properties"].items()}
        kept["additionalProperties"] = False
        # the chart names the Deployment itself
        kept["required"] = [key for key in schema.get("required", []) if key != "deploymentRef"]
        if not kept["required"]:
            del kept["required"]
    return kept


def value_schema(value: Any, path: str, docs: dict[str, str]) -> dict[str, Any]:
    """Return the schema of one value of values.yaml."""
    schema: dict[str, Any] = {"description": docs[path]} if path in docs else {}
    if path in ("queues", "limits"):
        return {**schema, "type": "object", "additionalProperties": specs(path)}
    match value:
        case bool():
            schema["type"] = "boolean"
        case int():
            low, high = BOUNDS[path]
            schema |= {"type": "integer", "minimum": low, "maximum": high}
        case str():
            schema["type"] = "string"
            if path in CHOICES:
                schema["enum"] = CHOICES[path]
            if path in PATTERNS:
                schema["pattern"] = PATTERNS[path]
        case list():
            schema |= {"type": "array", "items": ITEMS.get(path, {"type": "object"})}
        case dict() if FREE.search(path):
            schema["type"] = "object"
        case dict():
            schema |= {"type": "object", "additionalProperties": False}
            schema["properties"] = {
                key: value_schema(each, f"{path}.{key}".lstrip("."), docs) for key, each in value.items()
            }
    return schema


def documented(text: str) -> Iterator[tuple[str, str]]:
    """Yield each value's path with its sentence."""
    parents: list[tuple[int, str]] = []
    sentence = ""
    for line in text.splitlines():
        if found := re.match(r"\s*# -- (.*)", line):
            sentence = found[1]
        elif found := re.match(r"(\s*)([\w.-]+):", line):
            depth = len(found[1])
            parents = [each for each in parents if each[0] < depth] + [(depth, found[2])]
            if sentence:
                yield ".".join(name for _, name in parents), sentence
                sentence = ""


def readme(chart: dict[str, Any], values: dict[str, Any], docs: dict[str, str]) -> str:
    """Return the README of a chart."""
    lines = [
        f"# {chart['name']}",
        "",
        f"{chart['description']} How to install and use it: [docs/kubernetes.md](../../docs/kubernetes.md).",
        "",
        "Made from `values.yaml` by `make generate`. Keys that are not listed are refused.",
        "",
        "| value | default | what it is |",
        "|---|---|---|",
    ]
    for path, sentence in docs.items():
        value: Any = values
        for part in path.split("."):
            value = value[part]
        lines.append(f"| `{path}` | `{json.dumps(value)}` | {sentence.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def guarded(text: str) -> str:
    """Return a definition as a template: installed where crds.install says so, kept where crds.keep does."""
    head, rest = text.split("metadata:\n", 1)
    keep = "metadata:\n  {{- if .Values.crds.keep }}\n  annotations:\n    helm.sh/resource-policy: keep\n  {{- end }}\n"
    return "{{- if .Values.crds.install }}\n" + head + keep + rest + "{{- end }}\n"


def files() -> dict[Path, str]:
    """Return every generated file with its text."""
    return dict(_files())


def _files() -> Iterator[tuple[Path, str]]:
    yaml = YAML(typ="safe")
    for folder in sorted(path.parent for path in CHARTS.glob("*/Chart.yaml")):
        text = (folder / "values.yaml").read_text(encoding="utf-8")
        values, docs = yaml.load(text), dict(documented(text))
        schema = {"$schema": "http://json-schema.org/draft-07/schema#", **value_schema(values, "", docs)}
        # helm hands values of subcharts' parents over
        schema["properties"]["global"] = {"type": "object"}
        yield folder / "values.schema.json", json.dumps(schema, indent=2) + "\n"
        yield folder / "README.md", readme(yaml.load((folder / "Chart.yaml").read_text("utf-8")), values, docs)
    for path in sorted((ROOT / "crds").glob("*.yaml")):
        yield CHARTS / "tidegate" / "templates" / "crds" / path.name, guarded(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(run(files))
