"""Manifests: the table of objects, the envelope around them, and what a refusal says."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic.alias_generators import to_camel

from tests.examples_table import DURATIONS, LIMIT_OBJECTS, NAMES, QUEUE_OBJECTS, DurationText, ObjectCase, Text
from tidegate.errors import InvalidManifest
from tidegate.model.documents import Metadata
from tidegate.model.limits import LimitPolicy
from tidegate.model.manifests import (
    LimitManifest,
    LimitManifestSpec,
    QueueDefaults,
    QueueManifest,
    QueueManifestSpec,
    QueueRetention,
    QueueScaling,
    QueueWorkers,
    Rate,
    parse_manifest,
)

PARTS = (
    LimitManifestSpec,
    QueueManifestSpec,
    QueueDefaults,
    QueueRetention,
    QueueScaling,
    QueueWorkers,
    Rate,
    Metadata,
)
KEYS = sorted({to_camel(name) for part in PARTS for name in part.model_fields} | {"deploymentRef", "name", "other"})
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.floats()
    | st.sampled_from(["1m", "Fair", "Manual", "\ud800", ""]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from([*KEYS, 1]), inner, max_size=4),
    max_leaves=10,
)


def document(kind: str, spec: object, **changes: object) -> dict[str, object]:
    whole = {"apiVersion": "tidegate.dev/v1alpha1", "kind": kind, "metadata": {"name": "vendor-x"}, "spec": spec}
    return {key: value for key, value in {**whole, **changes}.items() if value is not None}


def limit(spec: object, **changes: object) -> LimitManifest:
    manifest = parse_manifest(document("Limit", spec, **changes))
    assert isinstance(manifest, LimitManifest)
    return manifest


def queue(spec: object, **changes: object) -> QueueManifest:
    manifest = parse_manifest(document("Queue", spec, **changes))
    assert isinstance(manifest, QueueManifest)
    return manifest


def refusal(value: object) -> dict[str, str]:
    with pytest.raises(InvalidManifest) as caught:
        parse_manifest(value)
    assert str(caught.value) == "\n".join(f"{problem.field} {problem.rule}" for problem in caught.value.problems)
    assert caught.value.__cause__ is None
    return {problem.field: problem.rule for problem in caught.value.problems}


@pytest.mark.parametrize("case", LIMIT_OBJECTS, ids=lambda case: case.label)
def test_limits(case: ObjectCase) -> None:
    if case.refused:
        assert tuple(refusal(document("Limit", case.spec, metadata={"name": case.name}))) == case.refused
        return
    manifest = limit(case.spec, metadata={"name": case.name})
    row = {"key": case.name, **case.row}
    if "window" in row:
        row["window"] = timedelta(milliseconds=row["window"])
    assert manifest.to_limit_policy() == LimitPolicy(**row)
    assert manifest.key == row["key"]


@pytest.mark.parametrize("case", QUEUE_OBJECTS, ids=lambda case: case.label)
def test_queues(case: ObjectCase) -> None:
    if case.refused:
        assert tuple(refusal(document("Queue", case.spec, metadata={"name": case.name}))) == case.refused
        return
    spec = queue(case.spec, metadata={"name": case.name}).to_queue_spec()
    assert spec.name == case.row.get("name", case.name)
    untouched = {
        "order": "priority",
        "suspended": False,
        "default_priority": None,
        "default_max_attempts": None,
        "default_timeout": None,
        "keep_succeeded": None,
        "keep_dead": None,
    }
    assert spec.to_changes() == {**untouched, **{part: value for part, value in case.row.items() if part != "name"}}


@pytest.mark.parametrize("case", NAMES, ids=lambda case: case.label)
def test_keys_and_names(case: Text) -> None:
    if case.good:
        assert limit({"key": case.value, "weight": 1}).to_limit_policy().key == case.value
        assert queue({"name": case.value}).to_queue_spec().name == case.value
    else:
        assert list(refusal(document("Limit", {"key": case.value, "weight": 1}))) == ["spec.key"]
        assert list(refusal(document("Queue", {"name": case.value}))) == ["spec.name"]


@pytest.mark.parametrize("case", DURATIONS, ids=lambda case: repr(case.text))
def test_durations(case: DurationText) -> None:
    given = document("Queue", {"retention": {"dead": case.text}})
    if case.milliseconds is not None and case.seconds_only:
        manifest = parse_manifest(given)
        assert isinstance(manifest, QueueManifest)
        assert manifest.to_queue_spec().keep_dead == timedelta(milliseconds=case.milliseconds)
    else:
        assert list(refusal(given)) == ["spec.retention.dead"]


@pytest.mark.parametrize(
    "changes",
    [
        {"status": {"key": "vendor-x", "anything": [1]}},
        {"status": None},
        {"metadata": {"name": "a.b-c.9", "namespace": "team-a", "labels": {"a": "b"}, "annotations": {"c": "d"}}},
        {"metadata": {"name": "x", "labels": None, "namespace": None}},
        {
            "metadata": {
                "name": "x",
                "uid": "u",
                "generation": 3,
                "resourceVersion": "1",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "managedFields": [{}],
                "finalizers": [],
                "ownerReferences": [],
            }
        },
    ],
)
def test_what_kubectl_prints_is_read(changes: dict[str, object]) -> None:
    assert limit({"weight": 1}, **changes).to_limit_policy().weight == 1


@pytest.mark.parametrize(
    ("value", "problems"),
    [
        (None, {"document": "must be a mapping of fields; got NoneType"}),
        ([], {"document": "must be a mapping of fields; got list"}),
        ({}, {"apiVersion": "must be tidegate.dev/v1alpha1; got None"}),
        (document("Limit", {}, apiVersion="v1"), {"apiVersion": "must be tidegate.dev/v1alpha1; got 'v1'"}),
        (document("limit", {}), {"kind": "must be Limit or Queue; got 'limit'"}),
        (document("Limit", {"weight": 1}) | {"kind": ["Limit"]}, {"kind": "must be Limit or Queue; got ['Limit']"}),
        (document("Limit", {"weight": 1}, metadata=None), {"metadata": "is required"}),
        (document("Limit", {"weight": 1}, metadata={}), {"metadata.name": "is required"}),
        (document("Limit", {"weight": 1}, metadata="x"), {"metadata": "must be a mapping of fields; got 'x'"}),
        (
            document("Limit", {"weight": 1}, metadata={"name": "Vendor_X"}),
            {
                "metadata.name": "must be a DNS-1123 subdomain, lower-case letters, digits, - and ., at most 253"
                " characters; got 'Vendor_X'"
            },
        ),
        (
            document("Limit", {"weight": 1}, metadata={"name": "x", "namespace": "a.b"}),
            {
                "metadata.namespace": "must be a DNS-1123 label, lower-case letters, digits and -, at most 63"
                " characters; got 'a.b'"
            },
        ),
        (
            document("Limit", {"weight": 1}, metadata={"name": "x", "labels": {"a": 1}}),
            {"metadata.labels.a": "must be text, in quotes where YAML reads it as something else; got 1"},
        ),
        (
            document("Limit", {"weight": 1}, metadata={"name": "x", "labels": {1: "a"}}),
            {"metadata.labels[1]": "must be text, in quotes where YAML reads it as something else; got 1"},
        ),
        (document("Limit", {"weight": 1, 1: 2}), {"spec[1]": "is no known field; names of fields are text"}),
        (
            document("Limit", {"weight": 1}, metadata={"name": "x", "label": {}}),
            {"metadata.label": "is no known field; did you mean labels?"},
        ),
        (
            document("Limit", {"weight": 1}, x={}),
            {"x": "is no known field; known here: apiVersion, kind, metadata, spec, status"},
        ),
    ],
)
def test_the_envelope(value: object, problems: dict[str, str]) -> None:
    assert refusal(value) == problems


@pytest.mark.parametrize("name", ["x" * 254, "-a", "a-", "a..b", "a/b", "a\n", "", "A", "a_b"])
def test_object_names(name: str) -> None:
    assert list(refusal(document("Queue", {}, metadata={"name": name}))) == ["metadata.name"]


@pytest.mark.parametrize(
    ("kind", "spec", "problem"),
    [
        ("Limit", {}, "spec must set at least one of maxRunning, rate or weight"),
        ("Limit", {"maxRunning": -1}, "spec.maxRunning must be at least 0; got -1"),
        ("Limit", {"maxRunning": 2_000_000}, "spec.maxRunning must be at most 1000000; got 2000000"),
        ("Limit", {"maxRunning": True}, "spec.maxRunning must be an integer; got true"),
        ("Limit", {"maxRuning": 1}, "spec.maxRuning is no known field; did you mean maxRunning?"),
        (
            "Limit",
            {"rate": {"maxStarts": 1, "window": "1ms"}},
            "spec.rate.window must be from 100ms to 24h; got 0.001 s",
        ),
        (
            "Limit",
            {"rate": {"maxStarts": 1, "window": "1m", "per": 1}},
            "spec.rate.per is no known field; known here: maxStarts, window",
        ),
        ("Limit", {"rate": {"maxStarts": [1], "window": "1m"}}, "spec.rate.maxStarts must be an integer; got a list"),
        ("Limit", {"weight": 1, "key": "a\n"}, "spec.key must not hold control characters (line feed, tab, NUL, ...)"),
        ("Limit", {"weight": 1, "key": {}}, "spec.key must be text, in quotes where YAML reads it as something else"),
        (
            "Queue",
            {"order": "fair"},
            "spec.order must be 'Priority' or 'Fair', in quotes where YAML reads it as something else; got 'fair'",
        ),
        ("Queue", {"suspend": "yes"}, "spec.suspend must be true or false; got 'yes'"),
        ("Queue", {"scaling": {"mode": "Manual"}}, "spec.scaling.mode is Manual and needs workers.replicas"),
        (
            "Queue",
            {"workers": {"deploymentRef": {"name": "m"}, "minReplicas": 11}},
            "spec.workers.minReplicas must not exceed maxReplicas (10); got 11",
        ),
        ("Queue", {"workers": {"deploymentRef": {"name": ""}}}, "spec.workers.deploymentRef.name must have at least 1"),
        (
            "Queue",
            {"workers": {"deploymentRef": {"name": "x" * 254}}},
            "spec.workers.deploymentRef.name must have at most",
        ),
        ("Queue", {"defaults": {"timeout": "0s"}}, "spec.defaults.timeout must be more than 0s; leave it out for none"),
    ],
)
def test_messages_name_the_path_and_the_rule(kind: str, spec: Mapping[str, Any], problem: str) -> None:
    with pytest.raises(InvalidManifest) as caught:
        parse_manifest(document(kind, spec))
    assert str(caught.value).startswith(problem)
    assert len(caught.value.problems) == 1


def test_long_values_are_cut_in_messages() -> None:
    (rule,) = refusal(document("Limit", {"weight": "x" * 10_000})).values()
    assert len(rule) < 120


def test_defaults_are_those_of_the_api() -> None:
    spec = limit({"weight": 1}).spec
    assert (spec.deletion_policy, spec.deletion_grace_period) == ("Delete", timedelta(seconds=30))
    scaling = queue({}).spec.scaling
    assert (scaling.mode, scaling.target_utilization) == ("Auto", 100)
    assert (scaling.scale_down_window, scaling.idle_grace) == (timedelta(minutes=2), timedelta(minutes=5))
    workers = queue({"workers": {"deploymentRef": {"name": "mail"}}}).spec.workers
    assert workers is not None
    assert (workers.slots, workers.min_replicas, workers.max_replicas, workers.replicas) == (10, 0, 10, None)


@given(kind=st.sampled_from(["Limit", "Queue"]), spec=ANYTHING, metadata=ANYTHING, whole=ANYTHING)
def test_whatever_is_given_is_read_or_refused_by_its_path(
    kind: str, spec: object, metadata: object, whole: object
) -> None:
    for value in (whole, document(kind, spec), document(kind, {"weight": 1}, metadata=metadata)):
        try:
            parse_manifest(value)
        except InvalidManifest as error:
            problems = error.problems
        else:
            continue
        assert all(problem.rule and "refused:" not in problem.rule for problem in problems)
        assert len({problem.path for problem in problems}) == len(problems)
