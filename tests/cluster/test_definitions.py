"""The resource definitions on a real API server: accepted, shown, explained, scaled."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.cluster.api_servers import CRDS, ApiServer
from tests.cluster.kubectls import Kubectl, KubectlError
from tidegate.model.documents import API_VERSION
from tidegate.model.object_statuses import (
    BlockingKey,
    Condition,
    KeyOwner,
    LimitStatusPart,
    ObjectStatus,
    QueueStatusPart,
    WorkersStatus,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
READY = Condition(type="Ready", status="True", last_transition_time=NOW, reason="InForce", message="4 of 4 run")
OWNER = KeyOwner(cluster="c1", namespace="team-a", name="vendor", uid="u")
LIMIT_STATUS = LimitStatusPart(
    observed_generation=1,
    observed_at=NOW,
    key="vendor-x",
    running=4,
    waiting=12,
    blocked=8,
    starts_in_window=37,
    starts_summary="37/100",
    next_start_at=NOW,
    owner=OWNER,
    drift_corrections=1,
    conditions=[READY],
)
QUEUE_STATUS = QueueStatusPart(
    observed_generation=1,
    observed_at=NOW,
    running=3,
    runnable=5,
    blocked=480,
    scheduled=7,
    dead=2,
    oldest_runnable_age="12s",
    blocked_by=[BlockingKey(key="vendor-x", jobs=480, by="MaxRunning")],
    workers=WorkersStatus(
        replicas=2,
        ready_replicas=2,
        desired_replicas=3,
        draining_replicas=0,
        last_scale_time=NOW,
        summary="2/3",
        selector="app=mail",
    ),
    owner=OWNER,
    drift_corrections=0,
    conditions=[READY],
)


def limit(**spec: object) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": "Limit", "metadata": {"name": "vendor-x"}, "spec": spec}


def queue(**spec: object) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": "Queue", "metadata": {"name": "mail"}, "spec": spec}


def with_status(api_server: ApiServer, kubectl: Kubectl, plural: str, name: str, status: ObjectStatus) -> None:
    """Write a status as the operator does; a field that the definition does not know would be an error."""
    path = f"/apis/{API_VERSION}/namespaces/{kubectl.namespace}/{plural}/{name}/status?fieldValidation=Strict"
    body = {"status": status.model_dump(mode="json", by_alias=True, exclude_none=True)}
    answer = api_server.request("PATCH", path, body, "application/merge-patch+json")
    assert answer.get("status") == body["status"], answer


def definitions() -> list[Any]:
    return [YAML(typ="safe").load(path) for path in sorted(CRDS.glob("*.yaml"))]


def test_the_api_server_finds_nothing_wrong(administrator: Kubectl) -> None:
    for definition in definitions():
        found = administrator.object("crd", definition["metadata"]["name"])
        conditions = {each["type"]: each["status"] for each in found["status"]["conditions"]}
        assert conditions == {"Established": "True", "NamesAccepted": "True"}
        assert found["status"]["storedVersions"] == ["v1alpha1"]


@pytest.mark.parametrize("word", ["limits", "limit", "tgl", "limits.tidegate.dev", "tidegate"])
def test_limits_are_shown_with_their_numbers(api_server: ApiServer, kubectl: Kubectl, word: str) -> None:
    kubectl.apply(limit(maxRunning=4, rate={"maxStarts": 100, "window": "1m"}))
    with_status(api_server, kubectl, "limits", "vendor-x", LIMIT_STATUS)
    (row,) = kubectl.table(word)
    assert row.pop("AGE")
    name = "limit.tidegate.dev/vendor-x" if word == "tidegate" else "vendor-x"
    assert row == {
        "NAME": name,
        "KEY": "vendor-x",
        "RUNNING": "4",
        "MAX": "4",
        "WAITING": "12",
        "STARTS": "37/100",
        "READY": "True",
    }


def test_wide_columns_say_why(api_server: ApiServer, kubectl: Kubectl) -> None:
    kubectl.apply(limit(maxRunning=4, rate={"maxStarts": 100, "window": "1m"}))
    with_status(api_server, kubectl, "limits", "vendor-x", LIMIT_STATUS)
    (row,) = kubectl.table("limits", "--output=wide")
    assert (row["BLOCKED"], row["WINDOW"], row["REASON"]) == ("8", "1m", "InForce")
    kubectl("wait", "--for=condition=Ready", "limit/vendor-x", "--timeout=5s")


@pytest.mark.parametrize("word", ["queues", "queue", "tgq", "queues.tidegate.dev"])
def test_queues_are_shown_with_their_numbers(api_server: ApiServer, kubectl: Kubectl, word: str) -> None:
    kubectl.apply(queue(order="Fair", workers={"deploymentRef": {"name": "mail"}}))
    with_status(api_server, kubectl, "queues", "mail", QUEUE_STATUS)
    (row,) = kubectl.table(word, "--output=wide")
    assert row.pop("AGE")
    assert row.pop("UPDATED")
    assert row == {
        "NAME": "mail",
        "RUNNING": "3",
        "RUNNABLE": "5",
        "BLOCKED": "480",
        "WORKERS": "2/3",
        "LAG": "12s",
        "READY": "True",
        "ORDER": "Fair",
        "SUSPENDED": "false",
        "SCHEDULED": "7",
        "DEAD": "2",
        "MIN": "0",
        "MAX": "10",
        "REASON": "InForce",
    }


def objects(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object in a schema that has fields, by the path that ``kubectl explain`` takes."""
    inner = schema.get("items", schema)
    if "properties" in inner:
        yield path, inner["properties"]
        for name, part in inner["properties"].items():
            yield from objects(part, f"{path}.{name}")


@pytest.mark.parametrize("definition", definitions(), ids=lambda each: each["metadata"]["name"])
def test_every_field_is_explained(administrator: Kubectl, definition: Any) -> None:
    plural = definition["spec"]["names"]["plural"]
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    explained = 0
    for part in ("spec", "status"):
        for path, fields in objects(schema[part], f"{plural}.{part}"):
            said = " ".join(administrator("explain", f"--api-version={API_VERSION}", path).split())
            for name, field in fields.items():
                assert f" {name} " in said, path
                assert field["description"] in said, f"{path}.{name}"
                explained += 1
    assert explained > 20


def test_a_key_and_a_name_stay_what_they_are(kubectl: Kubectl) -> None:
    kubectl.apply(limit(key="k", weight=1), queue(name="q"))
    for changed, words in (
        (limit(key="other", weight=1), "spec.key: .* key is immutable; create another Limit for another key"),
        (limit(weight=1), "spec: .* key is immutable|spec.key: .* key is immutable"),
        (queue(name="other"), "name is immutable; create another Queue for another name"),
    ):
        with pytest.raises(KubectlError, match=words):
            kubectl.apply(changed)
    kubectl.apply(limit(key="k", weight=2), queue(name="q", suspend=True))


def test_kubectl_scales_a_queue(api_server: ApiServer, kubectl: Kubectl) -> None:
    kubectl.apply(queue(workers={"deploymentRef": {"name": "mail"}, "replicas": 1}, scaling={"mode": "Manual"}))
    with_status(api_server, kubectl, "queues", "mail", QUEUE_STATUS)
    kubectl("scale", "queue", "mail", "--current-replicas=1", "--replicas=3")
    assert kubectl.object("queue", "mail")["spec"]["workers"]["replicas"] == 3
    path = f"/apis/{API_VERSION}/namespaces/{kubectl.namespace}/queues/mail/scale"
    scale = api_server.request("GET", path)
    assert (scale["spec"], scale["status"]) == ({"replicas": 3}, {"replicas": 2, "selector": "app=mail"})
    with pytest.raises(KubectlError, match="less than or equal to 10000"):
        kubectl("scale", "queue", "mail", "--replicas=10001")


def test_a_queue_without_workers_has_nothing_to_scale(kubectl: Kubectl) -> None:
    kubectl.apply(queue())
    with pytest.raises(KubectlError, match=r"deploymentRef"):
        kubectl("scale", "queue", "mail", "--replicas=3")


def test_unknown_fields_are_refused_by_name(kubectl: Kubectl) -> None:
    with pytest.raises(KubectlError, match=r'unknown field "(spec\.)?maxRuning"'):
        kubectl.apply(limit(maxRuning=4))
