"""The pages under docs/ say what is so: their Python runs, in the order of the page, and their links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import environment

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))


def named(page: Path) -> str:
    return page.name


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks), encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        env=environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=named)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []
