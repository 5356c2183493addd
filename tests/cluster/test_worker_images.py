"""The worker's image in real pods: an app mounted into it, and an app built from it, as the examples show."""

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from ruamel.yaml import YAML

from tests.cluster.kubectls import Kubectl, KubectlError
from tests.cluster.waiting import eventually

Observer = psycopg.Connection[Any]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "images"
ENQUEUE = "select id from tidegate.enqueue('greetings', 'greet', payload => %s::jsonb)"


def deployment() -> dict[str, Any]:
    """The example's Deployment."""
    found: dict[str, Any] = YAML(typ="safe").load(EXAMPLES / "mounted" / "worker.yaml")
    return found


def built_from(mounted: dict[str, Any]) -> dict[str, Any]:
    """The same Deployment for the image that has the app in it: no mount, and its own command."""
    pod = mounted["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    container["image"] = container["image"].replace("tidegate-worker", "tidegate-greetings")
    for left_out in ("args", "volumeMounts"):
        del container[left_out]
    del pod["volumes"]
    return mounted


def state(observer: Observer, job: int) -> str:
    row = observer.execute("select state from tidegate.job_status where id = %s", [job]).fetchone()
    assert row is not None
    return str(row[0])


def enqueue(observer: Observer, **payload: object) -> int:
    row = observer.execute(ENQUEUE, [json.dumps(payload)]).fetchone()
    assert row is not None
    return int(row[0])


def prepare(kubectl: Kubectl, database_url: str) -> None:
    """What the example's README says to make before its Deployment."""
    kubectl("create", "secret", "generic", "tidegate-database", f"--from-literal=url={database_url}")
    kubectl("create", "configmap", "greetings", f"--from-file={EXAMPLES / 'greetings.py'}")


@pytest.mark.parametrize("way", ["mounted", "from"])
def test_an_app_runs_its_jobs(kubectl: Kubectl, pods_database: str, observer: Observer, way: str) -> None:
    prepare(kubectl, pods_database)
    kubectl.apply(deployment() if way == "mounted" else built_from(deployment()))
    job = enqueue(observer, name=way)
    eventually(lambda: state(observer, job) == "succeeded", f"job {job} runs in a pod")
    # the database knows before the API server does
    kubectl("wait", "--for=condition=Ready", "pod", "--selector=app=greetings", "--timeout=60s")
    assert f"hello {way}" in kubectl("logs", "deployment/greetings")

    worker = observer.execute("select namespace, pod, alive from tidegate.workers").fetchone()
    (pod,) = kubectl.object("pods")["items"]
    assert worker == (kubectl.namespace, pod["metadata"]["name"], True)

    inside = ("exec", "deployment/greetings", "--")
    assert kubectl(*inside, "id", "-u").strip() == "65532"
    with pytest.raises(KubectlError, match="Read-only file system"):
        kubectl(*inside, "touch", "/app/written")
    unsafe = kubectl(*inside, "python3", "-c", "import sys; print('' in sys.path, sys.flags.safe_path)")
    assert unsafe.strip() == "False True"


def test_a_worker_that_is_told_to_go_finishes_its_job(kubectl: Kubectl, pods_database: str, observer: Observer) -> None:
    prepare(kubectl, pods_database)
    kubectl.apply(deployment())
    job = enqueue(observer, name="late", seconds=3)
    eventually(lambda: state(observer, job) == "running", "the job runs")
    kubectl("scale", "deployment", "greetings", "--replicas=0")
    kubectl("wait", "--for=delete", "pod", "--selector=app=greetings", "--timeout=40s")
    row = observer.execute("select state, attempt from tidegate.job_status where id = %s", [job]).fetchone()
    assert row == ("succeeded", 1)
