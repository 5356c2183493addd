"""Run the command ``tidegate`` as a user does: a process of its own, with nothing of this one's settings."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tidegate

TIMEOUT = 60
"""Seconds for a command that ends by itself; a failure when it does not."""


@dataclass(frozen=True)
class Result:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def environment(database_url: str | None = None, **variables: str) -> dict[str, str]:
    """This process's environment without any setting of Tidegate, able to import the package under test."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TIDEGATE_", "PYTHON"))}
    package = Path(tidegate.__file__).resolve().parents[1]
    database = {} if database_url is None else {"TIDEGATE_DATABASE_URL": database_url}
    # where this process measures coverage or warns, its children do not
    return {**kept, "PYTHONPATH": str(package), "COLUMNS": "120", **database, **variables}


def tidegate_command(
    *arguments: str,
    database_url: str | None = None,
    stdin: str = "",
    folder: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> Result:
    """Run ``tidegate`` with these arguments to its end."""
    ended = subprocess.run(
        [sys.executable, "-m", "tidegate", *arguments],
        env=environment(database_url, **(variables or {})),
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=folder,
        timeout=TIMEOUT,
        check=False,
    )
    result = Result(ended.returncode, ended.stdout, ended.stderr)
    assert "Traceback" not in result.err, result.err
    return result


@contextmanager
def running_command(
    *arguments: str, database_url: str | None = None, folder: Path | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Start ``tidegate`` with these arguments; it is killed at the end unless it has ended by then."""
    with subprocess.Popen(
        [sys.executable, "-m", "tidegate", *arguments],
        env=environment(database_url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        cwd=folder,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def stop(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> Result:
    """Send a signal and wait for the end."""
    process.send_signal(number)
    out, err = process.communicate(timeout=TIMEOUT)
    return Result(process.returncode, out, err)


def limit_flags(change: Mapping[str, Any]) -> list[str]:
    """Say arguments of ``set_limit`` as the flags of ``tidegate limits set``; ``window`` is in milliseconds."""
    flags: list[str] = []
    for field, value in change.items():
        text = "none" if value is None else f"{value}{'ms' if field == 'window' else ''}"
        flags += [f"--{field.replace('_', '-')}", text]
    return flags
