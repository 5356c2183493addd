"""Rules of the house that no linter knows: what may lie where, what modules are called, how long they are."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "worker" / "tidegate"
MODULES = sorted(PACKAGE.rglob("*.py"))
OPERATOR = ROOT / "operator" / "tidegate_operator"
OPERATOR_MODULES = sorted(OPERATOR.rglob("*.py"))
EVERY_MODULE = [*MODULES, *OPERATOR_MODULES]
MAX_LINES = 400


def test_standard_library_stays_reachable_from_the_root() -> None:
    """A folder called operator lies here; were it a package, every child started from the root would break."""
    child = subprocess.run(
        [sys.executable, "-c", "import operator, asyncio; print(operator.__file__)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    assert not Path(child.stdout.strip()).is_relative_to(ROOT / "operator")


@pytest.mark.parametrize("folder", ["worker", "operator"])
def test_no_module_lies_beside_the_packages(folder: str) -> None:
    assert list((ROOT / folder).glob("*.py")) == []


def test_no_test_folder_takes_the_name_of_a_module_of_the_standard_library() -> None:
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}
    assert folders & sys.stdlib_module_names == set()


def test_no_module_takes_the_name_of_one_of_the_standard_library() -> None:
    names = {path.stem for path in EVERY_MODULE} | {path.parent.name for path in EVERY_MODULE}
    assert names & (sys.stdlib_module_names - {"__init__", "__main__"}) == set()


@pytest.mark.parametrize("path", EVERY_MODULE, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_stay_short_enough_to_read(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MAX_LINES


def test_statements_are_files_of_their_own() -> None:
    """A statement in Python text escapes the reviewers of SQL and the check that it can be prepared."""
    words = r"insert into|update|delete from|select .+ from|with .+ as"
    written = re.compile(rf"\s*({words}|{words.upper()})\s", re.DOTALL)
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in EVERY_MODULE
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and written.match(node.value)
    ]
    assert found == []


def test_declared_dependencies_are_the_imported_ones() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {re.split(r"[^\w.-]", line)[0].replace("-", "_") for line in project["dependencies"]}
    imported = {name for path in MODULES for name in _imported(ast.parse(path.read_text()))}
    foreign = {name for name in imported if name.split(".")[0] not in sys.stdlib_module_names | {"tidegate"}}
    assert {name for name in declared if not any(_lies_in(module, name) for module in foreign)} == set()
    assert {module for module in foreign if not any(_lies_in(module, name) for name in declared)} == set()


def test_the_operator_declares_what_it_imports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["operator"]]
    declared = {re.split(r"[^\w.-]", line)[0].replace("-", "_") for line in lines}
    imported = {name for path in OPERATOR_MODULES for name in _imported(ast.parse(path.read_text()))}
    ours = {"tidegate", "tidegate_operator"}
    foreign = {name for name in imported if name.split(".")[0] not in sys.stdlib_module_names | ours}
    assert {module for module in foreign if not any(_lies_in(module, name) for name in declared)} == set()
    extra = {re.split(r"[^\w.-]", line)[0].replace("-", "_") for line in project["optional-dependencies"]["operator"]}
    assert {name for name in extra if not any(_lies_in(module, name) for module in foreign)} == set()


def _lies_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def _imported(node: ast.AST) -> Iterator[str]:
    """Modules that running this code imports; what stands under ``if TYPE_CHECKING`` is for the type checker alone."""
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=orelse):
            children: list[ast.AST] = list(orelse)
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
            return
        case ast.ImportFrom(module=str(module)):
            yield module
            return
        case _:
            children = list(ast.iter_child_nodes(node))
    for child in children:
        yield from _imported(child)
