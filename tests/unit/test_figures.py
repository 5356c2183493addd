"""Rows of figures, and a demo whose proof can fail."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from examples.demonstration.proofs import Proof
from examples.demonstration.scenes import Murder, Played
from tidegate.audit import Event, EventKind, History
from tidegate.audit.figures import Figure, Sense, write_figures

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "sense", "bar", "holds"),
    [(2.0, "<=", 2.0, True), (2.1, "<=", 2.0, False), (2.0, ">=", 2.1, False), (0, "==", 0, True), (1, "==", 0, False)],
)
def test_figure_holds_against_its_bar(value: float, sense: Sense, bar: float, *, holds: bool) -> None:
    assert Figure("x", value, "ratio", bar, sense, 1).holds is holds


def test_report_is_a_list_of_rows_of_one_shape(tmp_path: Path) -> None:
    path = tmp_path / "build" / "x.json"
    write_figures(path, [Figure("x", 1.7, "ratio", 2.0, "<=", 400, "why")], {"events": {"started": 3}})
    row, details = json.loads(path.read_text())
    assert row == {
        "name": "x", "value": 1.7, "unit": "ratio", "bar": 2.0, "sense": "<=", "holds": True, "samples": 400,
        "note": "why",
    }  # fmt: skip
    assert details.keys() == row.keys() | {"details"}
    assert details["details"] == {"events": {"started": 3}}
    assert [entry.name for entry in path.parent.iterdir()] == ["x.json"]


def test_proof_of_an_empty_history_fails() -> None:
    nothing = Played(History(events=[], jobs=[], runs=[]), NOON)
    assert not Proof(nothing, nothing).holds


def test_proof_names_what_fails() -> None:
    lost = Event(seq=1, at=NOON, kind=EventKind.ENQUEUED, job=1, key="tenant-big", item="tenant-big 1")
    before = Played(History(events=[], jobs=[], runs=[]), NOON)
    after = Played(History(events=[lost], jobs=[], runs=[]), NOON, Murder(NOON, 5))
    failed = {figure.name for figure in Proof(before, after).figures if not figure.holds}
    assert {
        "jobs lost",
        "violations of any rule",
        "jobs rescued from worker-2",
        "from the kill to the rescue",
    } <= failed
