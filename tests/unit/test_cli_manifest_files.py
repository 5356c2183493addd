import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.examples_table import LIMIT_OBJECTS, NAMES, QUEUE_OBJECTS, ObjectCase, Text
from tidegate.cli.manifest_files import read_manifests
from tidegate.model.limits import LimitPolicy
from tidegate.model.queues import QueueSpec


def manifest(kind: str, name: str, spec: Any) -> dict[str, Any]:
    return {"apiVersion": "tidegate.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


OBJECTS = [("Limit", case) for case in LIMIT_OBJECTS] + [("Queue", case) for case in QUEUE_OBJECTS]


@pytest.mark.parametrize(("kind", "case"), OBJECTS, ids=lambda value: getattr(value, "label", value))
def test_files_are_judged_as_objects_are(kind: str, case: ObjectCase, tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    file.write_text(json.dumps(manifest(kind, case.name, case.spec), indent=1))
    found = read_manifests([str(file)])
    refused = [problem.partition(": ")[2].split(" ")[0] for problem in found.problems]
    assert sorted(refused) == sorted(case.refused)
    assert len(found.placed) == (0 if case.refused else 1)


@pytest.mark.parametrize("text", NAMES, ids=lambda text: text.label)
def test_keys_are_judged_as_everywhere(text: Text, tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text(json.dumps(manifest("Limit", "x", {"key": text.value, "weight": 1}), indent=1))
    found = read_manifests([str(file)])
    if text.good:
        (placed,) = found.placed
        assert placed.target == ("Limit", text.value)
    else:
        (problem,) = found.problems
        assert problem.startswith(f"{file}:8: spec.key ")


GOOD = """\
apiVersion: tidegate.dev/v1alpha1
kind: Limit
metadata: {name: vendor-x}
spec: {maxRunning: 4}
---
apiVersion: tidegate.dev/v1alpha1
kind: Queue
metadata: {name: mail}
spec: {order: Fair}
"""


def test_documents_keep_their_order_and_know_their_place(tmp_path: Path) -> None:
    file = tmp_path / "good.yaml"
    file.write_text(GOOD)
    found = read_manifests([str(file)])
    assert found.problems == []
    assert [type(each.declared) for each in found.placed] == [LimitPolicy, QueueSpec]
    assert [each.place for each in found.placed] == [f"{file}:1", f"{file}:6"]


def test_every_problem_of_every_document_is_reported_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(
        "# a comment\n"
        "apiVersion: tidegate.dev/v1alpha1\n"
        "kind: Limit\n"
        "metadata: {name: a}\n"
        "spec:\n"
        "  maxRuning: 4\n"
        "  rate:\n"
        "    maxStarts: many\n"
        "---\n" + GOOD + "---\n"
        "apiVersion: apps/v1\n"
        "kind: Deployment\n"
        "---\n"
        "apiVersion: tidegate.dev/v1alpha1\n"
        "kind: Limits\n"
        "---\n"
        "apiVersion: tidegate.dev/v1alpha1\n"
        "kind: Queue\n"
        "metadata: {name: q}\n"
        "spec:\n"
        "  scaling:\n"
        "    mode: Off\n"
    )
    found = read_manifests([str(file)])
    assert found.problems == [
        f"{file}:6: spec.maxRuning is no known field; did you mean maxRunning?",
        f"{file}:7: spec.rate.window is required",
        f"{file}:8: spec.rate.maxStarts must be an integer; got 'many'",
        f"{file}:20: apiVersion must be tidegate.dev/v1alpha1; got 'apps/v1'",
        f"{file}:24: kind must be Limit or Queue; got 'Limits'",
        (
            f"{file}:31: spec.scaling.mode must be 'Auto', 'Manual' or 'Off', in quotes where YAML reads it as"
            " something else; got false, because YAML reads Off so"
        ),
    ]
    assert len(found.placed) == 2


def test_directories_are_read_in_order_of_names_and_not_deeper(tmp_path: Path) -> None:
    (tmp_path / "deeper").mkdir()
    for name, key in (("b.yml", "b"), ("a.yaml", "a"), ("c.json", "c"), ("deeper/d.yaml", "d")):
        (tmp_path / name).write_text(json.dumps(manifest("Limit", key, {"weight": 1})))
    (tmp_path / "notes.txt").write_text("not: a manifest\n")
    assert [each.target[1] for each in read_manifests([str(tmp_path)]).placed] == ["a", "b", "c"]


def test_two_documents_about_one_row_are_refused_with_both_places(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text(GOOD)
    second.write_text(json.dumps(manifest("Limit", "other", {"key": "vendor-x", "weight": 1})))
    found = read_manifests([str(tmp_path)])
    assert found.problems == [f"{second}:1: Limit 'vendor-x' stands already at {first}:1"]


def test_a_limit_and_a_queue_of_one_name_are_two_rows(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(GOOD.replace("vendor-x", "mail"))
    assert read_manifests([str(file)]).problems == []


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GOOD.encode())))
    assert [each.place for each in read_manifests(["-"]).placed] == ["stdin:1", "stdin:6"]


def test_what_cannot_be_read_is_a_problem_and_not_an_exception(tmp_path: Path) -> None:
    empty, latin, away = tmp_path / "empty", tmp_path / "latin.yaml", tmp_path / "away.yaml"
    empty.mkdir()
    latin.write_bytes(b"a: 1\nb: \xff\n")
    found = read_manifests([str(empty), str(latin), str(away)])
    assert found.problems == [
        f"{empty}: the directory holds no .yaml, .yml or .json file",
        f"{latin}:2: not UTF-8 text",
        f"{away}: No such file or directory",
    ]


def test_no_document_at_all_is_a_mistake(tmp_path: Path) -> None:
    file = tmp_path / "none.yaml"
    file.write_text("# nothing here\n---\n")
    assert read_manifests([str(file)]).problems == [f"{file}: no document in it"]


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    file = tmp_path / "windows.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert len(read_manifests([str(file)]).placed) == 2
