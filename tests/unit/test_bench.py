"""What decides whether `make bench` fails, and the statistics that its rows are made of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import bench.__main__ as bench
from bench.forms import Form
from bench.rows import Row
from bench.samples import interval, percentile


def test_the_interval_of_fifteen_pairs_is_the_fourth_from_either_end() -> None:
    assert interval([15, 1, 14, 2, 13, 3, 12, 4, 11, 5, 10, 6, 9, 7, 8]) == (4, 12)


def test_the_interval_of_few_values_is_all_of_them() -> None:
    assert interval([3.0, 1.0, 2.0]) == (1.0, 3.0)


def test_a_percentile_is_a_sample() -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.0
    assert percentile([4.0, 1.0, 3.0, 2.0], 0.99) == 4.0


@pytest.mark.parametrize(
    "case",
    [
        (Form.QUICK, "true", Row(name="slow", value=3, unit="ratio", bar=2, samples=1), 0),
        (Form.QUICK, "", Row(name="slow", value=3, unit="ratio", bar=2, samples=1), 1),
        (Form.PLAIN, "true", Row(name="slow", value=3, unit="ratio", bar=2, samples=1), 1),
        (Form.FULL, "", Row(name="rate", value=3, unit="ratio", bar=4, sense=">=", samples=1), 1),
        (Form.QUICK, "true", Row(name="reads", value=3, unit="rows", bar=2, samples=1, timed=False), 1),
        (Form.QUICK, "true", Row(name="reads", value=2, unit="rows", bar=2, samples=1, timed=False), 0),
        (Form.PLAIN, "", Row(name="told", value=9, unit="ms", samples=1), 0),
    ],
)
def test_a_row_that_does_not_hold_fails_the_run_but_for_times_of_the_quick_form_in_ci(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, case: tuple[Form, str, Row, int]
) -> None:
    form, ci, row, code = case

    @contextmanager
    def no_server(url: str | None) -> Iterator[str]:
        yield "postgresql://nowhere"

    async def measure(url: str, asked: Form) -> list[Row]:
        assert asked is form
        return [row]

    monkeypatch.setattr(bench, "server", no_server)
    monkeypatch.setattr(bench, "SECTIONS", {"one": measure})
    monkeypatch.setenv("CI", ci)
    flags = [] if form is Form.PLAIN else [f"--{form.value}"]
    assert bench.main([*flags, "--output", str(tmp_path)]) == code
    (written,) = json.loads((tmp_path / "one.json").read_text())
    assert written["name"] == row.name
    assert written["holds"] is row.holds
