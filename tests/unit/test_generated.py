"""What all generators share: `write`, `check` and what is said when a file is out of date."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def generated() -> Any:
    path = Path(__file__).parents[2] / ".ci" / "generated.py"
    spec = importlib.util.spec_from_file_location("generated", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_was_written_is_current_until_it_is_changed(
    generated: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {tmp_path / "docs" / "a.md": "one\n", tmp_path / "b.yaml": "two\n"}

    def run(word: str) -> int:
        code: int = generated.run(lambda: files, [word], root=tmp_path)
        return code

    assert run("check") == 1
    assert run("write") == 0
    assert (tmp_path / "docs" / "a.md").read_text() == "one\n"
    assert run("check") == 0
    capsys.readouterr()
    (tmp_path / "b.yaml").write_text("by hand\n")
    assert run("check") == 1
    said = capsys.readouterr().err
    assert "b.yaml is not what is generated today; run: make generate" in said
    assert "a.md" not in said


@pytest.mark.parametrize("arguments", [[], ["rewrite"], ["write", "check"]])
def test_anything_else_is_answered_with_the_usage(
    generated: Any, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert generated.run(dict, arguments) == 2
    assert "write|check" in capsys.readouterr().err
