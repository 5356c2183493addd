"""The operator on a real API server: from `kubectl apply` to a row and back, leaders, lost connections, rights."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cluster.helms import operator_rights
from tests.cluster.installations import limit, queue
from tests.cluster.kubectls import Kubectl, KubectlError
from tests.cluster.operator_processes import OperatorProcess, account, operator, relayed
from tests.cluster.waiting import eventually

Observer = psycopg.Connection[Any]

WAIT = ("wait", "--for=condition=Ready", "--timeout=30s")


def is_ready(found: Any) -> bool:
    conditions = found.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def rows(observer: Observer) -> dict[str, int]:
    return dict(observer.execute("select key, max_running from tidegate.limits").fetchall())


def until_rows(observer: Observer, wanted: dict[str, int]) -> None:
    def look() -> bool:
        return rows(observer) == wanted

    eventually(look, f"rows {wanted}")


def until_ready(kubectl: Kubectl, name: str) -> None:
    kubectl(*WAIT, f"limits.tidegate.dev/{name}")


def test_a_limit_from_apply_to_delete(kubectl: Kubectl, pods_database: str, observer: Observer, tmp_path: Path) -> None:
    with operator(tmp_path, pods_database, kubectl.namespace) as running:
        running.leads()
        assert running.asked("/healthz") == (200, "ok\n")
        assert running.asked("/readyz") == (200, "ok\n")
        kubectl.apply(
            limit("vendor-x", maxRunning=4, rate={"maxStarts": 100, "window": "1m"}, deletionGracePeriod="1s"),
            queue("mail", order="Fair", suspend=True),
        )
        until_ready(kubectl, "vendor-x")
        kubectl(*WAIT, "queues.tidegate.dev/mail")
        assert rows(observer) == {"vendor-x": 4}
        settings = observer.execute("select declared_order, suspended from tidegate.queues where name = 'mail'")
        assert settings.fetchone() == ("fair", True)

        seven = "select tidegate.enqueue('mail', 'a', limit_key => 'vendor-x') from generate_series(1, 7)"
        observer.execute(seven)

        def waiting() -> bool:
            (shown,) = kubectl.table("limits.tidegate.dev")
            numbers = [shown[heading] for heading in ("RUNNING", "MAX", "WAITING", "STARTS")]
            return numbers == ["0", "4", "7", "0/100"]

        eventually(waiting, "numbers move")

        started = time.monotonic()
        kubectl("patch", "limits.tidegate.dev", "vendor-x", "--type=merge", "--patch", '{"spec": {"maxRunning": 5}}')
        until_ready(kubectl, "vendor-x")
        assert rows(observer) == {"vendor-x": 5}
        assert time.monotonic() - started < 30

        kubectl("delete", "limits.tidegate.dev", "vendor-x")
        until_rows(observer, {})
        assert observer.execute("select count(*) from tidegate.jobs").fetchone() == (7,)
        assert running.end() == 0
        assert "Traceback" not in running.said


def test_two_operators_and_one_leader(kubectl: Kubectl, pods_database: str, observer: Observer, tmp_path: Path) -> None:
    with (
        operator(tmp_path, pods_database, kubectl.namespace) as first,
        operator(tmp_path, pods_database, kubectl.namespace) as second,
    ):

        def leader() -> OperatorProcess | None:
            return next((each for each in (first, second) if each.metric("tidegate_operator_leads") == 1), None)

        led: OperatorProcess = eventually(leader, "one leads")
        other = second if led is first else first
        kubectl.apply(limit("a", maxRunning=1))
        until_ready(kubectl, "a")
        assert other.metric("tidegate_operator_leads") == 0
        # a clean end releases the lease: nobody waits for it to run out
        ended = time.monotonic()
        assert led.end() == 0
        other.leads()
        assert time.monotonic() - ended < 10
        kubectl.apply(limit("a", maxRunning=2), limit("b", maxRunning=1))
        until_ready(kubectl, "b")
        until_rows(observer, {"a": 2, "b": 1})
        assert observer.execute("select epoch from tidegate.epochs").fetchone() == (2,)


def test_a_killed_leader_is_succeeded(kubectl: Kubectl, pods_database: str, observer: Observer, tmp_path: Path) -> None:
    with operator(tmp_path, pods_database, kubectl.namespace) as first:
        first.leads()
        kubectl.apply(limit("a", maxRunning=1))
        until_ready(kubectl, "a")
        first.end(signal.SIGKILL)
    kubectl.apply(limit("a", maxRunning=2), limit("b", maxRunning=3))
    with operator(tmp_path, pods_database, kubectl.namespace) as second:
        second.leads()
        until_rows(observer, {"a": 2, "b": 3})


@pytest.mark.parametrize("how", ["cut", "swallow"])
def test_an_api_server_out_of_reach(
    kubectl: Kubectl, pods_database: str, observer: Observer, tmp_path: Path, how: str
) -> None:
    """What is created, changed and deleted meanwhile is found afterwards; the leader gives up before its lease ends."""
    with (
        relayed(tmp_path) as (relay, kubeconfig),
        operator(tmp_path, pods_database, kubectl.namespace, kubeconfig=kubeconfig) as running,
    ):
        running.leads()
        kubectl.apply(limit("changed", maxRunning=1), limit("gone", maxRunning=1, deletionGracePeriod="0s"))
        until_ready(kubectl, "changed")
        until_ready(kubectl, "gone")
        getattr(relay, how)()
        running.until_said("leads no more")
        assert running.asked("/healthz")[0] == 200
        kubectl.apply(limit("changed", maxRunning=2), limit("new", maxRunning=3))
        kubectl("delete", "limits.tidegate.dev", "gone")
        assert rows(observer) == {"changed": 1, "gone": 1}
        relay.resume()
        until_rows(observer, {"changed": 2, "new": 3})
        until_ready(kubectl, "new")


def test_a_namespace_that_is_deleted(kubectl: Kubectl, pods_database: str, observer: Observer, tmp_path: Path) -> None:
    """The operator watches another namespace too, and goes on."""
    doomed = Kubectl(f"{kubectl.namespace}-doomed")
    kubectl("create", "namespace", doomed.namespace)
    with operator(tmp_path, pods_database, kubectl.namespace, "--namespace", doomed.namespace) as running:
        running.leads()
        doomed.apply(limit("theirs", maxRunning=1, deletionGracePeriod="0s"))
        until_ready(doomed, "theirs")
        kubectl("delete", "namespace", doomed.namespace)
        until_rows(observer, {})
        kubectl.apply(limit("ours", maxRunning=1))
        until_ready(kubectl, "ours")
        until_rows(observer, {"ours": 1})


def test_the_rights_that_it_needs_and_no_more(
    kubectl: Kubectl, pods_database: str, observer: Observer, tmp_path: Path
) -> None:
    kubeconfig = account(tmp_path, kubectl, operator_rights(kubectl.namespace))
    with operator(tmp_path, pods_database, kubectl.namespace, kubeconfig=kubeconfig) as running:
        running.leads()
        kubectl.apply(limit("vendor-x", maxRunning=4), queue("mail"))
        until_ready(kubectl, "vendor-x")
        kubectl.apply(limit("other", key="vendor-x", maxRunning=9))

        def told() -> bool:
            events = kubectl.object("events.events.k8s.io")["items"]
            return any(each["reason"] == "KeyConflict" for each in events)

        eventually(told, "an Event on the conflict")
        kubectl("delete", "limits.tidegate.dev", "vendor-x")

        def succeeded() -> bool:
            return rows(observer) == {"vendor-x": 9}

        eventually(succeeded, "the other object has the key")
        assert running.end() == 0
        assert "403" not in running.said
        assert json.loads(kubectl("get", "lease", "tidegate", "--output=json"))["spec"]["holderIdentity"] == ""


def deployment(name: str) -> dict[str, Any]:
    """A Deployment without replicas, whose pods nobody can start."""
    labels = {"app": name}
    container = {"name": "worker", "image": "localhost/there-is-none:0", "imagePullPolicy": "Never"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def test_a_deployment_follows_its_queue(
    kubectl: Kubectl, pods_database: str, observer: Observer, tmp_path: Path
) -> None:
    kubeconfig = account(tmp_path, kubectl, operator_rights(kubectl.namespace))
    workers = {"deploymentRef": {"name": "mailers"}, "slots": 2, "maxReplicas": 5}
    with operator(tmp_path, pods_database, kubectl.namespace, kubeconfig=kubeconfig) as running:
        running.leads()
        kubectl.apply(deployment("mailers"), queue("mail", workers=workers))
        kubectl(*WAIT, "queues.tidegate.dev/mail")
        kubectl(*WAIT[:1], "--for=condition=ScalingActive", *WAIT[2:], "queues.tidegate.dev/mail")

        def replicas() -> int:
            return int(kubectl.object("deployment", "mailers")["spec"]["replicas"])

        observer.execute("select tidegate.enqueue('mail', 'a') from generate_series(1, 6)")
        eventually(lambda: replicas() == 3, "three workers for six jobs and two slots each")

        def shown() -> bool:
            status = kubectl.object("queues.tidegate.dev", "mail")["status"]
            return (status.get("runnable"), status["workers"]["summary"]) == (6, "0/3")

        eventually(shown, "the status shows them")
        kubectl.apply(queue("mail", workers={**workers, "replicas": 1}, scaling={"mode": "Manual"}))
        scale = kubectl.object("--subresource=scale", "queues.tidegate.dev", "mail")
        assert scale["status"]["selector"] == "app=mailers"
        kubectl("scale", "queues.tidegate.dev", "mail", "--replicas=4")
        eventually(lambda: replicas() == 4, "the replicas that were asked for by hand")
        assert "403" not in running.said


def test_a_missing_right_is_named_and_ends_it(kubectl: Kubectl, pods_database: str, tmp_path: Path) -> None:
    kubeconfig = account(tmp_path, kubectl, operator_rights(kubectl.namespace))
    options = ("--namespace", "kube-node-lease", "--lease-namespace", kubectl.namespace)
    with operator(tmp_path, pods_database, "kube-public", *options, kubeconfig=kubeconfig) as running:
        assert running.ended() == 2
        assert "may not list limits.tidegate.dev in namespace kube-public" in running.said
        assert "may not list queues.tidegate.dev in namespace kube-node-lease" in running.said


def test_a_namespace_that_may_not_be_read_stops_no_other(
    kubectl: Kubectl, pods_database: str, observer: Observer, tmp_path: Path
) -> None:
    kubeconfig = account(tmp_path, kubectl, operator_rights(kubectl.namespace))
    with operator(
        tmp_path, pods_database, kubectl.namespace, "--namespace", "kube-public", kubeconfig=kubeconfig
    ) as running:
        running.leads()
        kubectl.apply(limit("vendor-x", maxRunning=4))
        until_ready(kubectl, "vendor-x")
        running.until_said("watching failed")
        assert "kube-public" in running.said
        assert running.metric('tidegate_operator_namespace_unwatched{watched="kube-public"}') == 1
        assert running.metric(f'tidegate_operator_namespace_unwatched{{watched="{kubectl.namespace}"}}') == 0
        assert running.asked("/readyz") == (200, "ok\n")
        kubectl.apply(limit("vendor-x", maxRunning=5))
        until_rows(observer, {"vendor-x": 5})
        assert running.end() == 0
        assert "Traceback" not in running.said


def test_an_operator_without_a_database_says_so_and_lives(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl.apply(limit("vendor-x", maxRunning=4))
    nowhere = "postgresql://nobody:hunter2@127.0.0.1:9/none"
    with operator(tmp_path, nowhere, kubectl.namespace) as running:

        def said() -> bool:
            conditions = kubectl.object("limits.tidegate.dev", "vendor-x").get("status", {}).get("conditions", [])
            return any(each["reason"] == "DatabaseUnavailable" for each in conditions)

        eventually(said, "DatabaseUnavailable")
        assert running.asked("/healthz")[0] == 200
        assert "hunter2" not in running.said
        with pytest.raises(KubectlError, match="timed out"):
            kubectl("wait", "--for=condition=Ready", "--timeout=1s", "limits.tidegate.dev/vendor-x")
        assert "hunter2" not in kubectl("get", "limits.tidegate.dev", "vendor-x", "--output=yaml")
