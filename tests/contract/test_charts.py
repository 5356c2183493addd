"""The charts as helm renders them: valid in every Kubernetes, no right too many, fit for a restricted namespace."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from ruamel.yaml import YAML

from tests.cluster.local.places import PROGRAMS
from tidegate.model.manifests import LimitManifest, QueueManifest
from tidegate_operator.metrics import Metrics

ROOT = Path(__file__).parents[2]
CHARTS = ROOT / "charts"
VERSIONS = [f"1.{minor}.0" for minor in range(29, 38)]

EVERYTHING = """
clusterId: eu-1
formerClusterIds: [eu]
keyPatterns: {team-a: ["team-a-*"]}
priorityClassName: high
extraEnv: [{name: A, value: b}]
extraVolumes: [{name: ca, configMap: {name: ca}}]
extraVolumeMounts: [{name: ca, mountPath: /etc/ca}]
tolerations: [{key: a, operator: Exists}]
nodeSelector: {kubernetes.io/os: linux}
podLabels: {team: a}
podAnnotations: {note: x}
imagePullSecrets: [{name: pull}]
networkPolicy: {scrapeFrom: [{namespaceSelector: {matchLabels: {name: monitoring}}}]}
monitoring:
  serviceMonitor: {enabled: true, labels: {release: prometheus}}
  podMonitor: {enabled: true}
  prometheusRule: {enabled: true}
  dashboard: {enabled: true}
"""

WORKER = """
queues:
  mail: {order: Fair, workers: {maxReplicas: 5}, scaling: {idleGrace: 1m}}
  bulk: {}
limits:
  vendor-x: {maxRunning: 4, rate: {maxStarts: 100, window: 1m}}
networkPolicy: {enabled: true, egress: [{ports: [{port: 443}]}]}
monitoring: {podMonitor: {enabled: true}}
extraEnvFrom: [{secretRef: {name: vendor}}]
"""


@cache
def helm_program() -> str:
    """Helm of the path or of the test cluster's programs. Outside of CI a machine may be without."""
    found = shutil.which("helm") or (str(PROGRAMS / "helm") if (PROGRAMS / "helm").exists() else None)
    if found is None and os.environ.get("CI"):
        pytest.fail("no helm here: the cluster step of .ci/run builds it before the tests")
    if found is None:
        pytest.skip("no helm here: install it, or build it with make cluster-up")
    return found


def helm(*arguments: str, values: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [helm_program(), *arguments, "--values", "-"], input=values or "{}", capture_output=True, text=True, check=False
    )


def rendered(chart: str, values: str = "", *arguments: str) -> list[dict[str, Any]]:
    done = helm("template", "demo", str(CHARTS / chart), "--namespace", "apps", *arguments, values=values)
    assert done.returncode == 0, done.stderr
    return [each for each in YAML(typ="safe").load_all(done.stdout) if each]


def of_kind(objects: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in objects if each["kind"] == kind}


SCENES = {
    "operator": ("tidegate", ""),
    "operator, everything": ("tidegate", EVERYTHING),
    "operator of two namespaces": ("tidegate", "{clusterId: eu-1, namespaces: [team-a, team-b]}"),
    "workers": ("tidegate-worker", WORKER),
}


@pytest.mark.parametrize("scene", SCENES)
def test_lint_finds_nothing(scene: str) -> None:
    chart, values = SCENES[scene]
    done = helm("lint", "--strict", str(CHARTS / chart), values=values)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_is_one_that_kubernetes_knows(version: str) -> None:
    kinds = set()
    for chart, values in SCENES.values():
        for each in rendered(chart, values, "--kube-version", version):
            kinds.add(each["kind"])
            judge(each)
    assert {"Deployment", "ClusterRole", "Role", "NetworkPolicy", "PodDisruptionBudget", "Pod", "Queue"} <= kinds


def test_an_older_kubernetes_is_refused() -> None:
    done = helm("template", "demo", str(CHARTS / "tidegate"), "--kube-version", "1.28.0")
    assert "incompatible with Kubernetes v1.28" in done.stderr


def judge(each: dict[str, Any]) -> None:
    """Compare an object with the models of the Kubernetes client: known fields alone, each of its type."""
    group, _, version = each["apiVersion"].rpartition("/")
    if group == "tidegate.dev":
        ours: Any = {"Limit": LimitManifest, "Queue": QueueManifest}[each["kind"]]
        ours.model_validate(each)
    elif group == "monitoring.coreos.com":
        assert each["spec"], "the Prometheus operator's kinds are not in the client"
    else:
        model = getattr(client, f"V{version.removeprefix('v')}{each['kind']}")
        assert strange(each, model.__name__) == []


def strange(value: Any, type_name: str, where: str = "") -> Iterator[str] | list[str]:
    """Return what the client's model of this type does not know, or knows otherwise."""
    if found := re.fullmatch(r"list\[(.*)\]", type_name):
        if not isinstance(value, list):
            return [f"{where}: no list"]
        return [each for item in value for each in strange(item, found[1], f"{where}[]")]
    if found := re.fullmatch(r"dict\(str, (.*)\)|dict\[str, (.*)\]", type_name):
        inner = found[1] or found[2]
        return [each for key, item in value.items() for each in strange(item, inner, f"{where}.{key}")]
    if type_name in {"str", "int", "bool", "float"}:
        return [] if type(value).__name__ == type_name else [f"{where}: {value!r} is no {type_name}"]
    if type_name in {"object", "datetime"} or not hasattr(client, type_name):
        return []
    model = getattr(client, type_name)
    if not isinstance(value, dict):
        return [f"{where}: no object"]
    names = {wire: name for name, wire in model.attribute_map.items()}
    problems = [f"{where}.{key}: unknown" for key in value if key not in names]
    for key, item in value.items():
        if key in names:
            problems += strange(item, model.openapi_types[names[key]], f"{where}.{key}")
    return problems


def test_the_judge_finds_what_is_wrong() -> None:
    assert strange({"spec": {"replica": 1}}, "V1Deployment") == [".spec.replica: unknown"]
    assert strange({"spec": {"replicas": "1"}}, "V1Deployment") == [".spec.replicas: '1' is no int"]


WATCHED: list[dict[str, Any]] = [
    {"apiGroups": ["tidegate.dev"], "resources": ["limits", "queues"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["tidegate.dev"], "resources": ["limits/status", "queues/status"], "verbs": ["patch"]},
    {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get", "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {"apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"], "verbs": ["list"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]},
]

LEASE: list[dict[str, Any]] = [
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": ["demo-tidegate"],
        "verbs": ["get", "update"],
    },
]

CLUSTER_ID: list[dict[str, Any]] = [
    {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["kube-system"], "verbs": ["get"]}
]


def test_rights_in_the_whole_cluster() -> None:
    objects = rendered("tidegate")
    assert {name: each["rules"] for name, each in of_kind(objects, "Role").items()} == {"demo-tidegate-lease": LEASE}
    roles = of_kind(objects, "ClusterRole")
    assert set(roles) == {"demo-tidegate", "demo-tidegate-view", "demo-tidegate-edit"}
    assert roles["demo-tidegate"]["rules"] == WATCHED + CLUSTER_ID
    # the personas are for people: nobody is bound to them here
    bound = of_kind(objects, "ClusterRoleBinding").values()
    assert [each["roleRef"]["name"] for each in bound] == ["demo-tidegate"]


def test_rights_in_some_namespaces_and_none_in_the_cluster() -> None:
    objects = rendered("tidegate", SCENES["operator of two namespaces"][1])
    kinds = {each["kind"] for each in objects}
    assert kinds.isdisjoint({"ClusterRole", "ClusterRoleBinding"})
    roles = [(e["metadata"]["namespace"], e["metadata"]["name"], e["rules"]) for e in objects if e["kind"] == "Role"]
    assert roles == [
        ("apps", "demo-tidegate-lease", LEASE),
        ("team-a", "demo-tidegate", WATCHED),
        ("team-b", "demo-tidegate", WATCHED),
    ]


@pytest.mark.parametrize("scene", SCENES)
def test_no_role_has_a_wildcard_or_reads_secrets(scene: str) -> None:
    for each in rendered(*SCENES[scene]):
        for rule in each.get("rules", ()) if each["kind"] in {"Role", "ClusterRole"} else ():
            words = [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert "*" not in "".join(words)
            assert not any(resource.split("/")[0] == "secrets" for resource in rule["resources"])


@pytest.mark.parametrize("scene", SCENES)
def test_every_pod_is_one_that_a_restricted_namespace_takes(scene: str) -> None:
    objects = rendered(*SCENES[scene])
    pods = [each["spec"] for each in objects if each["kind"] == "Pod"]
    pods += [each["spec"]["template"]["spec"] for each in objects if each["kind"] == "Deployment"]
    assert len(pods) == 2
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]
    if scene == "workers":
        assert all(pod["automountServiceAccountToken"] is False for pod in pods)


def test_workers_leave_their_replicas_to_the_operator_and_outlive_their_grace() -> None:
    objects = rendered("tidegate-worker", WORKER)
    (workers,) = of_kind(objects, "Deployment").values()
    assert "replicas" not in workers["spec"]
    pod = workers["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 40
    (container,) = pod["containers"]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert (variables["TIDEGATE_QUEUES"], variables["TIDEGATE_GRACE"]) == ("bulk mail", "30s")
    assert {"TIDEGATE_POD", "TIDEGATE_NAMESPACE"} <= variables.keys()
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    queues = of_kind(objects, "Queue")
    name = workers["metadata"]["name"]
    assert queues["bulk"]["spec"]["workers"] == {"deploymentRef": {"name": name}, "slots": 10}
    assert queues["mail"]["spec"]["workers"] == {"deploymentRef": {"name": name}, "slots": 10, "maxReplicas": 5}


def test_no_test_pod_is_taken_for_one_of_those_under_test() -> None:
    for chart, values in SCENES.values():
        objects = rendered(chart, values)
        (deployment,) = of_kind(objects, "Deployment").values()
        wanted = deployment["spec"]["selector"]["matchLabels"].items()
        for pod in of_kind(objects, "Pod").values():
            assert not wanted <= pod["metadata"]["labels"].items()


@pytest.mark.parametrize(
    ("chart", "values", "word"),
    [
        ("tidegate", "{replica: 2}", "replica"),
        ("tidegate", "{database: {existingSecrets: x}}", "existingSecrets"),
        ("tidegate", "{monitoring: {dashboard: {enable: true}}}", "enable"),
        ("tidegate", "{replicas: -1}", "replicas"),
        ("tidegate", "{namespaces: [a]}", "clusterId"),
        ("tidegate-worker", "{}", "name at least one queue"),
        ("tidegate-worker", "{queues: {mail: {ordre: Fair}}}", "ordre"),
        ("tidegate-worker", "{queues: {mail: {order: fair}}}", "order"),
        ("tidegate-worker", "{queues: {mail: {}}, limits: {x: {maxRuning: 4}}}", "maxRuning"),
        ("tidegate-worker", "{queues: {mail: {}}, app: app}", "app"),
    ],
)
def test_a_slip_in_the_values_is_refused_and_named(chart: str, values: str, word: str) -> None:
    done = helm("template", "demo", str(CHARTS / chart), values=values)
    assert done.returncode != 0
    assert word in done.stderr


@pytest.mark.parametrize("plural", ["limits", "queues"])
def test_the_definitions_are_those_of_crds_but_for_guard_and_annotation(plural: str) -> None:
    ours = YAML(typ="safe").load((ROOT / "crds" / f"{plural}.yaml").read_text(encoding="utf-8"))
    found = of_kind(rendered("tidegate"), "CustomResourceDefinition")[f"{plural}.tidegate.dev"]
    assert found["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert found == ours
    bare = of_kind(rendered("tidegate", "{crds: {keep: false}}"), "CustomResourceDefinition")
    assert bare[f"{plural}.tidegate.dev"] == ours
    assert of_kind(rendered("tidegate", "{crds: {install: false}}"), "CustomResourceDefinition") == {}


def test_alerts_and_dashboard_ask_for_metrics_that_there_are_and_link_to_runbooks_that_there_are() -> None:
    known = {sample.name for family in Metrics().registry.collect() for sample in family.samples}
    known |= {family.name for family in Metrics().registry.collect()}
    known |= {f"{name}{end}" for name in known for end in ("_total", "_bucket")}
    objects = rendered("tidegate", EVERYTHING)
    (rules,) = of_kind(objects, "PrometheusRule").values()
    (board,) = of_kind(objects, "ConfigMap").values()
    panels = json.loads(board["data"]["tidegate.json"])["panels"]
    alerts = rules["spec"]["groups"][0]["rules"]
    queries = [each["expr"] for each in alerts] + [t["expr"] for panel in panels for t in panel["targets"]]
    assert len(queries) >= 12
    for query in queries:
        assert set(re.findall(r"tidegate_\w+", query)) <= known, query
    page = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    anchors = {re.sub(r"[^\w-]", "", line.strip("# ").lower()) for line in page.splitlines() if line.startswith("#")}
    for alert in alerts:
        file, _, anchor = alert["annotations"]["runbook"].partition("#")
        assert file == "docs/kubernetes.md"
        assert anchor in anchors
        assert "runbook_url" not in alert["annotations"]


def test_alerts_link_to_the_page_where_it_is_served() -> None:
    page = "https://wiki.example/tidegate"
    objects = rendered("tidegate", f"{{monitoring: {{prometheusRule: {{enabled: true, runbook: {page}}}}}}}")
    (rules,) = of_kind(objects, "PrometheusRule").values()
    for alert in rules["spec"]["groups"][0]["rules"]:
        assert alert["annotations"]["runbook_url"] == f"{page}#{alert['alert'].lower()}"
        assert "runbook" not in alert["annotations"]


@pytest.mark.parametrize("scene", SCENES)
def test_no_host_is_named_that_nobody_chose(scene: str) -> None:
    """Groups of an API look like hosts and are none: a link has a scheme."""
    for each in rendered(*SCENES[scene]):
        if each["kind"] != "CustomResourceDefinition":
            assert re.findall(r"https?://[\w.-]*[a-z]", json.dumps(each)) == [], each


def test_the_notes_say_the_trap_of_the_name() -> None:
    done = helm("install", "demo", str(CHARTS / "tidegate"), "--dry-run=client", "--hide-secret")
    assert "LimitRange" in done.stdout, done.stderr
    assert "limits.tidegate.dev" in done.stdout


def test_workers_serve_the_queues_that_their_objects_name() -> None:
    objects = rendered("tidegate-worker", "queues: {mail: {name: Mail_EU}, bulk: {}}")
    (deployment,) = of_kind(objects, "Deployment").values()
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    served = next(each["value"] for each in container["env"] if each["name"] == "TIDEGATE_QUEUES")
    assert served == "Mail_EU bulk"
    done = helm("template", "demo", str(CHARTS / "tidegate-worker"), values="queues: {mail: {name: two words}}")
    assert done.returncode != 0
    assert "has a blank in it" in done.stderr
