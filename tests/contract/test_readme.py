"""The README does what it says: its example is run, as pasted, on a database started as it says."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.commands import environment

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)

TIMEOUT = 60


@pytest.fixture
def folder(server_folder: Path) -> Path:
    """A folder as a reader has it: an environment to activate, and the examples."""
    server_folder.chmod(0o755)
    programs = server_folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, arguments in (("python", ""), ("tidegate", "-m tidegate ")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments}"$@"\n')
        (programs / name).chmod(0o755)
    (programs / "activate").write_text(f'PATH="{programs}:$PATH"\n')
    (server_folder / "examples").symlink_to(ROOT / "examples")
    return server_folder


@contextmanager
def terminal(block: str, folder: Path, **variables: str) -> Iterator["subprocess.Popen[str]"]:
    """Paste a block into a shell of its own, and end what is left of it."""
    with subprocess.Popen(
        ["/bin/bash", "-e", "-c", block],
        cwd=folder,
        env=environment(PYTHONUNBUFFERED="1", TIDEGATE_DEV_PORT="0", **variables),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            yield shell
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGKILL)


def ctrl_c(shell: "subprocess.Popen[str]") -> int:
    os.killpg(shell.pid, signal.SIGINT)
    return shell.wait(timeout=TIMEOUT)


def lines_of(shell: "subprocess.Popen[str]") -> Iterator[str]:
    assert shell.stdout is not None
    return iter(shell.stdout.readline, "")


def test_the_example_runs_as_pasted(folder: Path) -> None:
    database, example, limits, _ = BLOCKS
    with terminal(database, folder) as server:
        exported = next(line for line in lines_of(server) if "export TIDEGATE_DATABASE_URL=" in line)
        with terminal(exported + example, folder) as worker:
            seen: list[tuple[str, float]] = []
            for line in lines_of(worker):
                seen.append((line, time.monotonic()))
                if len(seen) == 8:
                    break
            assert len(seen) == 8, seen
            assert ctrl_c(worker) == 0
        assert {line for line, _ in seen} == {f"hello {number}\n" for number in range(8)}
        # the sixth start waits until the first has left the window; a line is seen well within a second of its start
        assert seen[5][1] - seen[0][1] > 4

        activated = f". .venv/bin/activate\n{exported}{limits}"
        with terminal(activated, folder) as shell:
            said = list(lines_of(shell))
            assert shell.wait(timeout=TIMEOUT) == 0, said
        assert any(line.split()[:4] == ["vendor-x", "0", "-", "0"] for line in said)
        assert "limit tenant-small: created, max_running 5 (dry run)\n" in said
        assert said[-1] == "limit vendor-x: cleared\n"
        assert ctrl_c(server) == 0


def test_the_readme_is_short_and_its_links_lead_somewhere() -> None:
    assert len(README.splitlines()) < 120
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert target.startswith("https://") or (ROOT / target).exists(), target
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make ([a-z-]+)", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
