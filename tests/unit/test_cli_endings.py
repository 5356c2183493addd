"""How a command ends when somebody ends it."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import TIMEOUT, environment, running_command


def test_ctrl_c_is_130_and_no_traceback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(TIMEOUT)
        url = f"postgresql://u:canary@127.0.0.1:{silent.getsockname()[1]}/x"
        with running_command("limits", "list", database_url=url) as process:
            connection, _ = silent.accept()
            with connection:
                # it has asked, and waits for an answer that does not come
                assert connection.recv(1)
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, out, err) == (130, "", "")


def test_a_reader_that_goes_away_is_141_and_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [sys.executable, "-m", "tidegate", "--version"],
        env=environment(),
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_said_in_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "tidegate", "--version"],
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
    assert ended.returncode == 1
    assert ended.stderr.splitlines() == [
        "error: cannot write the output: No space left on device; what the command does was done"
    ]


@pytest.mark.parametrize(
    ("closed", "arguments", "code", "says"),
    [
        (">&-", "--version", 1, "error: cannot write the output: Bad file descriptor; what the command does was done"),
        ("<&-", "apply -f -", 2, "error: -: no document in it"),
        ("2>&-", "apply -f /nowhere", 2, None),
        ("<&- >&- 2>&-", "apply -f /nowhere", 2, None),
    ],
)
def test_closed_streams_change_no_exit_code_and_bring_no_traceback(
    closed: str, arguments: str, code: int, says: str | None
) -> None:
    ended = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" -m tidegate {arguments} {closed}', sys.executable],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (code, "")
    assert ended.stderr.splitlines() == ([] if says is None else [says])
