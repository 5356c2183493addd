"""The API server judges the table of examples as pydantic, ``tidegate apply`` and SQL do."""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.cluster.api_servers import ApiServer
from tests.examples_table import (
    DURATIONS,
    LIMIT_OBJECTS,
    NAMES,
    QUEUE_OBJECTS,
    DurationText,
    ObjectCase,
    Text,
)
from tidegate.errors import InvalidManifest
from tidegate.model.documents import API_VERSION
from tidegate.model.manifests import parse_manifest

ROOT_FIELD = "<nil>"
"""What the API server names where a rule on the whole object is broken: such a rule cannot name a field."""


def document(kind: str, spec: object, name: str = "vendor-x") -> dict[str, Any]:
    whole = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}}
    return whole if spec is None else {**whole, "spec": spec}


def refused(answer: Any) -> tuple[str, ...] | None:
    """Paths that an answer refuses, or None for an object that was accepted."""
    if answer["kind"] != "Status":
        return None
    assert answer["code"] in {400, 422}, answer
    causes = answer.get("details", {}).get("causes", [])
    return tuple(cause["field"] for cause in causes) or (answer["message"],)


def agrees(answer: Any, paths: Iterable[str]) -> bool:
    """Whether everything refused is something that our own judgement refuses too.

    The server stops at the first kind of mistake: unknown fields, then types and bounds, then rules. A missing field is
    named by its parent and in the message; unknown fields and fields of a wrong type are named in the message alone.
    """
    fields = refused(answer) or ()
    named = [path for path in paths if path in answer["message"] or path.rpartition(".")[2] in answer["message"]]
    return bool(named) and all(any(_concern_one_part(field, path) for path in paths) for field in fields)


def _concern_one_part(field: str, path: str) -> bool:
    """Whether one of the two is, or lies in, the other; a field is a whole message where the server names none."""
    field = field.removeprefix(".")
    return field == ROOT_FIELD or " " in field or field.startswith(path) or path.startswith(field)


@pytest.mark.parametrize("case", LIMIT_OBJECTS, ids=lambda case: case.label)
def test_limits(api_server: ApiServer, case: ObjectCase) -> None:
    answer = api_server.try_out("limits", document("Limit", case.spec, case.name))
    assert (refused(answer) is None) == (not case.refused), answer
    assert not case.refused or agrees(answer, case.refused), answer


@pytest.mark.parametrize("case", QUEUE_OBJECTS, ids=lambda case: case.label)
def test_queues(api_server: ApiServer, case: ObjectCase) -> None:
    answer = api_server.try_out("queues", document("Queue", case.spec, case.name))
    assert (refused(answer) is None) == (not case.refused), answer
    assert not case.refused or agrees(answer, case.refused), answer


@pytest.mark.parametrize(
    "case",
    [case for case in NAMES if not any(0xD800 <= ord(each) < 0xE000 for each in case.value)],
    ids=lambda case: case.label,
)
def test_names(api_server: ApiServer, case: Text) -> None:
    key = api_server.try_out("limits", document("Limit", {"weight": 1, "key": case.value}))
    name = api_server.try_out("queues", document("Queue", {"name": case.value}))
    assert (refused(key) is None, refused(name) is None) == (case.good, case.good), (key, name)


@pytest.mark.parametrize("case", DURATIONS, ids=lambda case: repr(case.text))
def test_durations(api_server: ApiServer, case: DurationText) -> None:
    specs: list[tuple[str, str, dict[str, Any]]] = [
        ("limits", "Limit", {"rate": {"maxStarts": 1, "window": case.text}}),
        ("limits", "Limit", {"weight": 1, "deletionGracePeriod": case.text}),
        ("queues", "Queue", {"scaling": {"scaleDownWindow": case.text, "idleGrace": case.text}}),
        ("queues", "Queue", {"defaults": {"timeout": case.text}}),
        ("queues", "Queue", {"retention": {"succeeded": case.text, "dead": case.text}}),
    ]
    for plural, kind, spec in specs:
        whole = document(kind, spec)
        try:
            parse_manifest(whole)
            accepted = True
        except InvalidManifest:
            accepted = False
        answer = api_server.try_out(plural, whole)
        assert (refused(answer) is None) == accepted, (spec, answer)


def test_defaults_are_the_models(api_server: ApiServer) -> None:
    for plural, kind, spec in (
        ("limits", "Limit", {"weight": 1}),
        ("queues", "Queue", {"workers": {"deploymentRef": {"name": "mail"}}}),
    ):
        answer = api_server.try_out(plural, document(kind, spec))
        ours = parse_manifest(document(kind, spec)).model_dump(mode="json", by_alias=True, exclude_none=True)
        empty = {name for name, value in ours["spec"].items() if value == {}}
        assert answer["spec"] == {name: value for name, value in ours["spec"].items() if name not in empty}
