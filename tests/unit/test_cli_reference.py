import subprocess
import sys
from pathlib import Path

import typer
from typer.main import get_command

from tests.commands import environment
from tidegate.cli.main import app

ROOT = Path(__file__).resolve().parents[2]


def commands(command: object, path: tuple[str, ...] = ("tidegate",)) -> dict[str, object]:
    inner = getattr(command, "commands", None)
    if not inner:
        return {" ".join(path): command}
    return {name: each for sub, part in inner.items() for name, each in commands(part, (*path, sub)).items()}


def test_the_reference_says_what_the_commands_say() -> None:
    script = ROOT / ".ci" / "cli_reference.py"
    checked = subprocess.run(
        [sys.executable, str(script), "check"], env=environment(), capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr


def test_every_command_has_an_example_that_names_it_and_every_setting_a_variable() -> None:
    root = get_command(app)
    groups = {f"tidegate {name}": each for name, each in root.commands.items() if getattr(each, "commands", None)}  # type: ignore[attr-defined]
    assert set(groups) == {"tidegate limits", "tidegate queues", "tidegate jobs", "tidegate schema"}
    for path, group in groups.items():
        assert f"  {path} " in typer.Context(group, info_name=path).get_help().partition("Example:")[2], path
    found = commands(root)
    assert {path.split()[1] for path in found} == {"worker", "limits", "queues", "jobs", "apply", "schema", "dev"}
    asked_each_time = {
        "actor", "dry_run", "files", "force", "limit", "limit_key", "max_running", "max_starts", "queue", "state",
        "weight", "window",
    }  # fmt: skip
    for path, command in found.items():
        text = typer.Context(command, info_name=path).get_help()  # type: ignore[arg-type]
        assert f"  {path}" in text.partition("Example:")[2], path
        for parameter in command.params:  # type: ignore[attr-defined]
            if parameter.param_type_name == "option" and parameter.name not in asked_each_time:
                assert str(parameter.envvar).startswith("TIDEGATE_"), (path, parameter.name)
