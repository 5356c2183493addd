"""Both charts on a real cluster: workers from none to some and back by what limits let run, upgraded, removed."""

import json
import subprocess
from pathlib import Path
from typing import Any

import psycopg

from tests.cluster.installations import OPERATOR
from tests.cluster.kubectls import Kubectl
from tests.cluster.waiting import eventually

CHARTS = Path(__file__).resolve().parents[2] / "charts"
VERSION = OPERATOR.rpartition(":")[2]
ENQUEUE = "select tidegate.enqueue('greetings', 'greet', payload => %s::jsonb, limit_key => %s)"

DEPLOYMENT = "greetings-tidegate-worker"

WORKERS: dict[str, Any] = {
    "image": {"repository": "localhost/tidegate-greetings", "tag": VERSION},
    "app": "greetings:app",
    "slots": 2,
    "queues": {
        "greetings": {
            "workers": {"minReplicas": 0, "maxReplicas": 3},
            "scaling": {"scaleDownWindow": "3s", "idleGrace": "3s"},
        }
    },
    "limits": {"narrow": {"maxRunning": 1}},
    "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
}


class Helm:
    """Helm in one namespace."""

    def __init__(self, namespace: str, folder: Path) -> None:
        self._namespace, self._folder = namespace, folder

    def __call__(self, *arguments: str, values: dict[str, Any] | None = None) -> str:
        given = []
        if values is not None:
            file = self._folder / "values.json"
            file.write_text(json.dumps(values))
            given = ["--values", str(file)]
        command = ["helm", "--namespace", self._namespace, *arguments, *given]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


def operator_values(namespace: str) -> dict[str, Any]:
    return {
        "image": {"repository": "localhost/tidegate-operator", "tag": VERSION},
        "namespaces": [namespace],
        "clusterId": namespace,
        # those of the session are in force already, and belong to no release
        "crds": {"install": False},
        "replicas": 1,
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
    }


def replicas(kubectl: Kubectl) -> int:
    return int(kubectl.object("deployment", DEPLOYMENT)["spec"]["replicas"])


def unfinished(observer: psycopg.Connection[Any]) -> int:
    row = observer.execute("select count(*) from tidegate.jobs").fetchone()
    assert row is not None
    return int(row[0])


def test_workers_follow_what_limits_let_run(
    kubectl: Kubectl, pods_database: str, observer: psycopg.Connection[Any], tmp_path: Path
) -> None:
    helm = Helm(kubectl.namespace, tmp_path)
    kubectl("create", "secret", "generic", "tidegate-database", f"--from-literal=url={pods_database}")
    notes = helm("install", "tidegate", str(CHARTS / "tidegate"), values=operator_values(kubectl.namespace))
    assert "limits.tidegate.dev" in notes
    helm("test", "tidegate")
    helm("install", "greetings", str(CHARTS / "tidegate-worker"), values=WORKERS)
    kubectl("wait", "--for=condition=Ready", "queue/greetings", "limit/narrow", "--timeout=60s")
    eventually(lambda: replicas(kubectl) == 0, "an idle queue goes without workers", patience=120)
    kubectl("wait", "--for=delete", "pod", "--selector=app.kubernetes.io/instance=greetings", "--timeout=60s")

    # a backlog that its limit holds back asks for one worker, however long it is
    seen = set()
    for number in range(6):
        observer.execute(ENQUEUE, [json.dumps({"name": f"narrow {number}", "seconds": 1}), "narrow"])

    def narrow_done() -> bool:
        seen.add(replicas(kubectl))
        return unfinished(observer) == 0

    eventually(narrow_done, "the blocked backlog is worked off by one worker", patience=120)
    assert max(seen) == 1

    # one that no limit holds back takes all it may
    for number in range(12):
        observer.execute(ENQUEUE, [json.dumps({"name": f"wide {number}", "seconds": 4}), ""])
    eventually(lambda: replicas(kubectl) == 3, "more workers for more runnable jobs")
    eventually(lambda: unfinished(observer) == 0, "all jobs are done", patience=120)
    helm("test", "greetings")
    eventually(lambda: replicas(kubectl) == 0, "back to none", patience=120)

    ended = observer.execute("select state, attempt, lost, count(*) from tidegate.history group by 1, 2, 3").fetchall()
    assert ended == [("succeeded", 1, 0, 18)]

    helm("upgrade", "greetings", str(CHARTS / "tidegate-worker"), values={**WORKERS, "slots": 4})
    assert replicas(kubectl) == 0
    helm("uninstall", "greetings", "--wait")
    helm("uninstall", "tidegate", "--wait")
    assert kubectl.object("crd", "limits.tidegate.dev")
    kept = observer.execute("select max_running from tidegate.limits where key = 'narrow'").fetchall()
    assert kept == [(1,)]
