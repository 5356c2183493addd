"""An operator of the whole cluster, by a chart that brings the definitions: installed, upgraded, removed, back."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.cluster import helms
from tests.cluster.api_servers import CRDS
from tests.cluster.conftest import define, new_namespace
from tests.cluster.databases import ClusterPostgres
from tests.cluster.helms import Helm, operator_values
from tests.cluster.installations import Rows, limit, queue
from tests.cluster.kubectls import WATCH_TIMEOUT, Kubectl, KubectlError
from tests.cluster.operator_processes import read_access
from tests.cluster.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]

MOST_COMMANDS = 10
"""From nothing to a moving ``kubectl get limits``, the clone among them."""

DEFINITIONS = ("limits.tidegate.dev", "queues.tidegate.dev")
OURS = r"test-[0-9a-f]{12}(-doomed)?"
"""Namespaces that tests have made."""

EVERY_OBJECT = ("get", ",".join(DEFINITIONS), "--all-namespaces", "--output=jsonpath={.items[*].metadata.namespace}")


@pytest.fixture
def bare(administrator: Kubectl) -> Iterator[Kubectl]:
    """A kubectl for a cluster without the definitions, which come back afterwards."""
    strangers = {name for name in administrator(*EVERY_OBJECT).split() if not re.fullmatch(OURS, name)}
    if strangers:
        pytest.skip(f"removing the definitions would remove the objects in {', '.join(sorted(strangers))}")
    administrator("delete", "crd", *DEFINITIONS)
    try:
        yield administrator
    finally:
        define(administrator)


def columns_of(definition: Any) -> list[str]:
    return [each["name"] for each in definition["spec"]["versions"][0]["additionalPrinterColumns"]]


TODAY = columns_of(YAML(typ="safe").load(CRDS / "limits.yaml"))
"""The columns of `kubectl get limits`."""


def columns(kubectl: Kubectl) -> list[str]:
    return columns_of(kubectl.object("crd", "limits.tidegate.dev"))


def older_chart(folder: Path) -> Path:
    """The operator's chart as another release might have had it: its definition of Limit lacks the first column."""
    older = folder / "tidegate"
    copytree(helms.OPERATOR, older)
    template = older / "templates" / "crds" / "limits.yaml"
    before, heading, rest = template.read_text(encoding="utf-8").partition("additionalPrinterColumns:\n")
    column = re.match(r"(    - name: Key\n(?:      .*\n)+)", rest)
    assert column, rest[:200]
    template.write_text(before + heading + rest.removeprefix(column[1]), encoding="utf-8")
    return older


def may(kubectl: Kubectl, who: str, verb: str, what: str, part: str = "") -> bool:
    """Whether a user may do something in the namespace, to objects or to a part of them."""
    try:
        return kubectl("auth", "can-i", verb, what, f"--subresource={part}", f"--as={who}").strip() == "yes"
    except KubectlError:
        return False


def test_an_operator_of_the_whole_cluster(bare: Kubectl, postgres: ClusterPostgres, tmp_path: Path) -> None:
    database_url = postgres.new_database()
    with new_namespace(bare) as home, new_namespace(bare) as team, new_namespace(bare) as other:
        rows = Rows(database_url)
        home("create", "secret", "generic", "tidegate-database", f"--from-literal=url={database_url}")
        helm = Helm(home.namespace)
        values = {**operator_values(database_url), "crds": {"install": True}}
        values |= {"keyPatterns": {team.namespace: ["team-*"], "*": ["{namespace}/*"]}}
        try:
            helm("install", "tidegate", str(older_chart(tmp_path)), values=values)
            home("rollout", "status", "deployment/tidegate", "--timeout=90s")
            helm("test", "tidegate")
            _serves_every_namespace(rows, bare, team, other)
            _grants_teams_what_it_says(team)
            uid = team.object("limit", "team-a")["metadata"]["uid"]

            # an upgrade brings today's definitions, and every object stays
            assert columns(bare) == TODAY[1:]
            helm("upgrade", "tidegate", helms.OPERATOR, values=values)
            assert columns(bare) == TODAY
            home("rollout", "status", "deployment/tidegate", "--timeout=90s")

            # without the operator everything stays, and the next one takes it up where it was
            helm("uninstall", "tidegate", "--wait")
            assert team.object("limit", "team-a")["metadata"]["uid"] == uid
            team.apply(limit("team-a", maxRunning=7))
            assert rows.caps() == {"team-a": 1, f"{other.namespace}/x": 2}
            helm("install", "tidegate", helms.OPERATOR, values=values)
            eventually(lambda: rows.caps() == {"team-a": 7, f"{other.namespace}/x": 2}, "the new one goes on")

            # asked for, the definitions go too, with every object; what stands in the database goes on binding
            helm("upgrade", "tidegate", helms.OPERATOR, values={**values, "crds": {"install": True, "keep": False}})
            helm("uninstall", "tidegate", "--wait")
            with pytest.raises(KubectlError, match="NotFound"):
                columns(bare)
            assert rows.caps() == {"team-a": 7, f"{other.namespace}/x": 2}
        finally:
            helm("uninstall", "tidegate", "--ignore-not-found", "--wait")


def _serves_every_namespace(rows: Rows, bare: Kubectl, team: Kubectl, other: Kubectl) -> None:
    team.apply(limit("team-a", maxRunning=1), limit("stranger", maxRunning=9), queue("team-mail"))
    other.apply(limit("x", key=f"{other.namespace}/x", maxRunning=2))
    team("wait", "--for=condition=Ready", "--timeout=60s", "limit/team-a", "queue/team-mail")
    other("wait", "--for=condition=Ready", "--timeout=60s", "limit/x")
    team("wait", "--for=jsonpath={.status.conditions[?(@.type=='Ready')].reason}=KeyNotAllowed", "limit/stranger")
    assert rows.caps() == {"team-a": 1, f"{other.namespace}/x": 2}
    cluster = bare.object("namespace", "kube-system")["metadata"]["uid"]
    assert rows("select distinct owner->>'cluster' as cluster from tidegate.limits") == [{"cluster": cluster}]


def _grants_teams_what_it_says(team: Kubectl) -> None:
    for role in ("view", "edit"):
        team("create", "rolebinding", role, f"--clusterrole={role}", f"--user={role}er")
    limits = "limits.tidegate.dev"
    eventually(lambda: may(team, "editer", "create", limits), "the roles are put together")
    assert may(team, "viewer", "list", limits)
    assert not may(team, "viewer", "create", limits)
    assert may(team, "editer", "patch", "queues.tidegate.dev", "scale")
    assert not may(team, "editer", "patch", limits, "status")


def first_steps() -> tuple[list[str], list[str]]:
    """The commands of docs/kubernetes.md for a newcomer: before and in the shell that knows the cluster."""
    page = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    section = page.partition("## On one machine, from nothing\n")[2].partition("\n## ")[0]
    before, inside = re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return before.splitlines(), inside.splitlines()


def test_a_newcomer_sees_numbers_move(bare: Kubectl, postgres: ClusterPostgres, tmp_path: Path) -> None:
    """The page's commands as they stand, in a namespace that is this kubeconfig's own."""
    before, inside = first_steps()
    assert 1 + len(before) + len(inside) <= MOST_COMMANDS
    *commands, last = inside
    with new_namespace(bare) as kubectl:
        access = read_access()
        access["contexts"][0]["context"]["namespace"] = kubectl.namespace
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(json.dumps(access))
        variables = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "KUBECONFIG": str(kubeconfig),
            # what is known of another test's cluster is not a newcomer's
            "KUBECACHEDIR": str(tmp_path / "cache"),
            "TIDEGATE_DATABASE_URL": postgres.new_database(),
        }
        try:
            for command in commands:
                done = subprocess.run(
                    ["bash", "-c", command], cwd=ROOT, env=variables, capture_output=True, text=True, check=False
                )
                assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            with subprocess.Popen(
                [*last.split(), WATCH_TIMEOUT], env=variables, stdout=subprocess.PIPE, text=True
            ) as watch:
                try:
                    _moves(watch)
                finally:
                    watch.kill()
        finally:
            Helm(kubectl.namespace)("uninstall", "greetings", "tidegate", "--ignore-not-found", "--wait")


def _moves(watch: "subprocess.Popen[str]") -> None:
    """Read until four run, and then until fewer wait than before."""
    assert watch.stdout is not None
    heading = watch.stdout.readline().split()
    assert heading[:5] == ["NAME", "KEY", "RUNNING", "MAX", "WAITING"]
    waiting = []
    for line in watch.stdout:
        name, _, *numbers = line.split()
        if name == "vendor-x" and numbers[:2] == ["4", "4"]:
            waiting.append(int(numbers[2]))
            if len(set(waiting)) > 1:
                break
    assert len(set(waiting)) > 1
    assert waiting == sorted(waiting, reverse=True)
    assert waiting[0] <= 296
