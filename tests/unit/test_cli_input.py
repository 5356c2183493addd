"""What is wrong with the words typed is said before any connection is tried: here nobody listens."""

import sys
from collections.abc import Callable
from datetime import timedelta
from inspect import signature

import pytest

from tests.commands import Result, limit_flags
from tests.examples_table import DURATIONS, LIMIT_CHANGES, NAMES, DurationText, LimitCase, Text
from tidegate.cli.main import main
from tidegate.cli.worker_commands import worker_command
from tidegate.errors import InvalidInput
from tidegate.model.defaults import SLOTS
from tidegate.model.durations import parse_duration
from tidegate.model.jobs import JobState
from tidegate.model.limits import LimitChange
from tidegate.runtime.settings import WorkerSettings

NOWHERE = "postgresql://nobody:canary@127.0.0.1:1/none"

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in this process."""
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", NOWHERE)

    def run_here(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["tidegate", *arguments])
        with pytest.raises(SystemExit) as ending:
            main()
        captured = capsys.readouterr()
        assert "canary" not in captured.out + captured.err
        return Result(int(str(ending.value.code)), captured.out, captured.err)

    return run_here


def is_wrong_by_itself(case: LimitCase) -> bool:
    window = case.change.get("window")
    spans = {} if window is None else {"window": timedelta(milliseconds=window)}
    try:
        LimitChange("k", **{**case.change, **spans})
    except InvalidInput:
        return True
    return False


NUMERIC = [case for case in LIMIT_CHANGES if case.numeric]


@pytest.mark.parametrize("case", NUMERIC, ids=lambda case: case.label)
def test_limits_are_judged_as_everywhere(case: LimitCase, run: Run) -> None:
    ended = run("limits", "set", "k", *limit_flags(case.change))
    if is_wrong_by_itself(case):
        assert ended.code == 2
        assert ended.err.startswith("error: ")
        assert f"--{str(case.refused).replace('_', '-')}" in ended.err
        assert "_" not in ended.err
        assert "None" not in ended.err
    else:
        # good, or to be judged beside the stored policy: a connection was tried
        assert ended.code == 3


@pytest.mark.parametrize("text", [text for text in NAMES if text.fits_a_connection], ids=lambda text: text.label)
@pytest.mark.parametrize(
    ("command", "field"),
    [
        (["limits", "set", "--weight", "1"], "key"),
        (["limits", "clear"], "key"),
        (["queues", "suspend"], "queue"),
        (["queues", "resume"], "queue"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_names_are_judged_as_everywhere(command: list[str], field: str, text: Text, run: Run) -> None:
    ended = run(*command, "--", text.value)
    assert ended.code == (3 if text.good else 2)
    if not text.good:
        assert ended.err.startswith(f"error: {field} must ")


@pytest.mark.parametrize(
    "text", [text for text in DURATIONS if "\0" not in text.text], ids=lambda text: repr(text.text)
)
def test_windows_are_durations_as_everywhere(text: DurationText, run: Run) -> None:
    ended = run("limits", "set", "k", "--max-starts", "1", "--window", text.text)
    if text.milliseconds is None:
        assert ended.code == 2
        assert ended.err.startswith("error: --window must ")
    else:
        assert ended.code == (3 if 100 <= text.milliseconds <= 86_400_000 else 2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["limits", "set", "k", "--max-running", "four"], "--max-running must be a whole number, or none"),
        (["limits", "set", "k", "--max-running", "4.0"], "--max-running must be a whole number, or none"),
        (["limits", "set", "k", "--max-running", "\u0664"], "--max-running must be a whole number, or none"),
        (["limits", "set", "k", "--max-running", ""], "--max-running must be a whole number, or none"),
        (["limits", "set", "k", "--max-running", "9" * 5000], "--max-running must be a whole number, or none"),
        (
            ["limits", "set", "k"],
            "--max-running, --max-starts, --window and --weight are all left out; give",
        ),
        (
            ["limits", "set", "k", "--max-running", "-1"],
            "--max-running must be an integer from 0 to 1000000, or none",
        ),
        (["limits", "set", "k", "--window", "1ms"], "--window must be from 100ms to 24h"),
        (["limits", "set", "k", "--max-starts", "1", "--window", "none"], "another --window, or --max-starts none for"),
        (["limits", "set", "k", "--max-starts", "none", "--window", "1m"], "while --max-starts none removes the rate"),
        (["limits", "set", "k", "--max-runing", "4"], "no such option"),
        (["limits", "set", "k", "--weight"], "requires an argument"),
        (["limits", "set"], "missing argument"),
        (["limits", "list", "--output", "xml"], "'table', 'json', 'yaml'"),
        (["limit", "list"], "did you mean 'limits'"),
        (["jobs", "show", "one"], "invalid value for 'id'"),
        (["jobs", "show", "0"], "invalid value for 'id'"),
        (["jobs", "show", str(2**63)], "invalid value for 'id'"),
        (["jobs", "list", "--limit", "0"], "invalid value for '--limit'"),
        (["jobs", "list", "--state", "done"], "--state must be one of scheduled, ready, running, succeeded, dead"),
        (["apply"], "missing option '--filename'"),
        (["apply", "-f", "/nowhere/at/all.yaml"], "/nowhere/at/all.yaml: no such file or directory"),
        (["dev", "--port", "70000"], "invalid value for '--port'"),
        (["worker"], "missing argument"),
        (["worker", "app"], "module:attribute"),
        (["worker", "app:app", "--lease", "soon"], "--lease must be whole numbers, each with a unit"),
        (["worker", "app:app", "--slots", "many"], "invalid value for '--slots'"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_what_was_typed_wrong_is_said(arguments: list[str], words: str, run: Run) -> None:
    ended = run(*arguments)
    assert ended.code == 2
    assert words in ended.err.lower()
    assert ended.out == ""


@pytest.mark.parametrize("group", [(), ("limits",), ("queues",), ("jobs",), ("schema",)], ids=" ".join)
def test_without_a_command_the_help_is_shown(group: tuple[str, ...], run: Run) -> None:
    ended = run(*group)
    assert ended.code == 2
    assert ended.err.startswith(f"Usage: {' '.join(('tidegate', *group))} ")


def test_no_database_says_what_to_type(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEGATE_DATABASE_URL")
    ended = run("limits", "list")
    assert ended.code == 2
    assert "--database-url" in ended.err
    assert "tidegate dev" in ended.err


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:canary@host/x",
        "canary",
        "postgresql://u:canary@[host/x",
        "postgresql://u:can/canary@host/x",
        "postgresql://u:canary@host:port/x",
        "postgresql://u:canary@host/x?sslmode=canary",
    ],
)
def test_a_url_that_is_none_is_refused_without_showing_it(url: str, run: Run) -> None:
    ended = run("limits", "list", "--database-url", url)
    assert ended.code == 2
    assert ended.err.startswith("error: ")


def test_an_unreachable_database_is_named_without_its_password(run: Run) -> None:
    ended = run("jobs", "list")
    assert ended.code == 3
    assert ended.err.startswith("error: cannot reach 127.0.0.1:1/none")


def test_defaults_are_those_of_the_model() -> None:
    defaults = {name: each.default for name, each in signature(worker_command).parameters.items()}
    settings = WorkerSettings(queues=("any",))
    for name in ("lease", "poll", "grace", "stall_limit"):
        assert parse_duration(defaults[name]) == getattr(settings, name)
    assert defaults["slots"] == SLOTS


def test_every_state_is_named_in_the_help(run: Run) -> None:
    text = run("jobs", "list", "--help").out
    assert all(state in text for state in JobState)


def test_the_version(run: Run) -> None:
    assert run("--version").out.startswith("tidegate ")
