import json
import os
import sys
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
import typer
from ruamel.yaml import YAML

from tidegate import errors
from tidegate.cli.exits import ExitCode, describe_exit_codes, exit_code_of
from tidegate.cli.printing import Column, OutputFormat, complain, plain, print_record, print_rows, visible
from tidegate.model.jobs import JobState
from tidegate.runtime.endings import WorkerExit

COLUMNS = (Column("KEY", "key"), Column("RUNNING", "running", number=True), Column("WINDOW", "window"))
ROWS = [
    {"key": "vendor-x", "running": 4, "window": timedelta(minutes=1), "hidden": True},
    {"key": "日本 [red]x[/red]", "running": 120, "window": None, "hidden": False},
]


def test_a_table_that_is_piped_is_never_cut_and_has_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [*ROWS, {"key": "k" * 200, "running": 0, "window": timedelta(0)}]
    print_rows(rows, COLUMNS, OutputFormat.TABLE)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["KEY", "RUNNING", "WINDOW"]
    assert lines[1].split() == ["vendor-x", "4", "1m"]
    assert lines[2].split() == ["日本", "[red]x[/red]", "120", "-"]
    assert lines[3].split() == ["k" * 200, "0", "0s"]
    assert len(lines) == 4


def test_an_empty_table_still_has_its_headings(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([], COLUMNS, OutputFormat.TABLE)
    assert capsys.readouterr().out.split() == ["KEY", "RUNNING", "WINDOW"]


def test_json_and_yaml_hold_every_field_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    expected = [{**row, "window": window} for row, window in zip(ROWS, ("1m", None), strict=True)]
    print_rows(ROWS, COLUMNS, OutputFormat.JSON)
    assert json.loads(capsys.readouterr().out) == expected
    print_rows(ROWS, COLUMNS, OutputFormat.YAML)
    text = capsys.readouterr().out
    assert YAML(typ="safe").load(text) == expected
    assert list(YAML(typ="safe").load(text)[0]) == list(expected[0])


def test_empty_listings_are_empty_lists(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([], COLUMNS, OutputFormat.JSON)
    assert json.loads(capsys.readouterr().out) == []
    print_rows([], COLUMNS, OutputFormat.YAML)
    assert YAML(typ="safe").load(capsys.readouterr().out) == []


def test_a_record_is_a_field_a_line_and_blocks_come_last(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"id": 7, "traceback": "line 1\nline \x1b[31m2\n", "error": None}
    print_record(row, OutputFormat.TABLE, blocks=("traceback",))
    assert capsys.readouterr().out == "id     7\nerror  -\ntraceback:\n    line 1\n    line \\x1b[31m2\n"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, 678_900, tzinfo=UTC), "2026-01-02T03:04:05.678Z"),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2))), "2026-01-02T01:04:05.000Z"),
        (timedelta(hours=1, milliseconds=1), "1h1ms"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (JobState.DEAD, "dead"),
        ({1: [timedelta(seconds=1)]}, {"1": ["1s"]}),
    ],
)
def test_values_as_json_has_them(value: object, expected: object) -> None:
    assert plain(value) == expected
    json.dumps(plain(value))


def test_a_terminal_never_obeys_what_is_stored() -> None:
    assert visible("é\x1b]0;x\x07\u202e\ud800\n") == "é\\x1b]0;x\\x07\\u202e\\ud800\\n"
    assert visible("a\nb\r", lines=True) == "a\nb\\r"


def test_errors_are_one_line_each_and_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    complain("first\nsecond \x1b[0m", "do this")
    captured = capsys.readouterr()
    assert captured.err == "error: first\nerror: second \\x1b[0m\nhint: do this\n"
    assert captured.out == ""


def test_every_error_of_the_tree_has_the_exit_code_that_the_help_promises() -> None:
    owner = {"cluster": "c", "namespace": "n", "name": "x", "uid": "u"}
    expected = {
        errors.InvalidLimit("max_running", "must be at least 0"): ExitCode.USAGE,
        errors.InvalidName("key", "must not be empty"): ExitCode.USAGE,
        errors.ConfigurationError("no database"): ExitCode.USAGE,
        errors.DatabaseError("refused"): ExitCode.FAILED,
        errors.DatabaseUnavailable("away"): ExitCode.DATABASE,
        errors.SchemaOutdated(None, 1): ExitCode.SCHEMA,
        errors.NotFound("job 1", "list them"): ExitCode.NOT_FOUND,
        errors.Conflict("running"): ExitCode.CONFLICT,
        errors.LimitOwned("k", owner): ExitCode.CONFLICT,
        errors.QueueOwned("q", owner): ExitCode.CONFLICT,
        errors.TidegateError("other"): ExitCode.FAILED,
    }
    assert {error: exit_code_of(error) for error in expected} == expected


def test_exit_codes_of_the_worker_are_among_those_of_the_command() -> None:
    assert {ending.value for ending in WorkerExit} <= {code.value for code in ExitCode}
    for code in ExitCode:
        assert f"{code.value}  {code.meaning}" in describe_exit_codes()


def test_a_reader_that_went_away_ends_the_command_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        with pytest.raises(typer.Exit) as caught:
            print_rows(ROWS, COLUMNS, OutputFormat.TABLE)
    assert caught.value.exit_code == ExitCode.PIPE_CLOSED
