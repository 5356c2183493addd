"""The cluster's processes: started inside its network namespace, known by their process number, stopped in order."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.cluster.local.places import ADMIN, NAMESPACE, PROGRAMS, STATE

PATIENCE: Final = 90
"""Seconds for one part of the cluster to come up."""

GRACE: Final = 5
"""Seconds that a process gets after SIGTERM."""

BETWEEN_LOOKS: Final = 0.2
"""Seconds between two looks at something that takes its time."""


def environment() -> dict[str, str]:
    """The caller's environment, with the cluster's programs first and its kubeconfig; no proxy leads there."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    kept.pop("PYTHONPATH", None)
    return {**kept, "PATH": f"{PROGRAMS}:{os.environ['PATH']}", "KUBECONFIG": str(ADMIN)}


def inside(command: Sequence[str | Path]) -> list[str]:
    """The command, as it runs in the cluster's network; ``ip netns exec`` would hide /sys/fs/cgroup from it."""
    return ["nsenter", f"--net=/run/netns/{NAMESPACE}", "--", *map(str, command)]


def run(command: Sequence[str | Path], *, stdin: str | None = None, cwd: Path | None = None) -> str:
    """Run a command to its end and return what it printed; a failure ends everything, with its last words."""
    done = subprocess.run(
        [str(part) for part in command],
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
        cwd=cwd,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"failed: {' '.join(map(str, command))}\n{done.stdout[-2000:]}")
    return done.stdout


def succeeds(command: Sequence[str | Path]) -> bool:
    """Whether a command ends well; what it says is thrown away."""
    if shutil.which(str(command[0]), path=environment()["PATH"]) is None:
        return False
    quiet = subprocess.DEVNULL
    return subprocess.run(list(command), stdout=quiet, stderr=quiet, env=environment(), check=False).returncode == 0


def start(name: str, *command: str | Path) -> None:
    """Start a part of the cluster that goes on when this program has ended; its log is ``logs/NAME.log``."""
    with (STATE / "logs" / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            inside(command),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment(),
            start_new_session=True,
        )
    (STATE / f"{name}.pid").write_text(str(process.pid))


def wait_until(what: str, holds: Callable[[], bool]) -> None:
    """Look until something holds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"{what} did not come up within {PATIENCE} s; see {STATE / 'logs'}")
        time.sleep(BETWEEN_LOOKS)


def is_alive(name: str) -> bool:
    """Whether a part of the cluster runs."""
    with suppress(OSError, ValueError):
        return _lives(int((STATE / f"{name}.pid").read_text()))
    return False


def stop(process_number: int) -> None:
    """Ask a process to end, wait, and insist."""
    for number, patience in ((signal.SIGTERM, GRACE), (signal.SIGKILL, GRACE)):
        with suppress(ProcessLookupError):
            os.kill(process_number, number)
        end = time.monotonic() + patience
        while _lives(process_number) and time.monotonic() < end:
            time.sleep(BETWEEN_LOOKS / 4)


def stop_part(name: str) -> None:
    """Stop a part of the cluster, if it runs."""
    if is_alive(name):
        stop(int((STATE / f"{name}.pid").read_text()))


def _lives(process_number: int) -> bool:
    """A process that has ended may stay as a zombie: not every first process of a container reaps what it inherits."""
    try:
        status = Path(f"/proc/{process_number}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(") ")[2][:1] != "Z"
