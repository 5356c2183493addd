"""The processes of the demo: workers, and the CLI. None outlives the demo, however it ends."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1]

STOP_SECONDS = 10.0
"""Time that a worker gets to end after SIGTERM; then it is killed."""

GUARD = 'read -r _; kill -KILL "$1" 2>/dev/null'
"""Kills a worker when the pipe from the demo closes: even a demo that was killed leaves none behind."""


class WorkerProcess:
    """``tidegate worker`` in a process of its own.

    Args:
        name: of the worker, and of its log.
        app: ``module:attribute`` of the app, found from `folder`.
        folder: where the process starts.
        database_url: handed on by the environment, so that no process list shows the password.
        logs: folder for what it writes.
        options: more of its command line.
    """

    def __init__(
        self, name: str, *, app: str, folder: Path, database_url: str, logs: Path, options: Sequence[str]
    ) -> None:
        self.name = name
        self.log = logs / f"{name}.log"
        environment = {**os.environ, "TIDEGATE_DATABASE_URL": database_url, "TIDEGATE_WORKER_NAME": name}
        with self.log.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tidegate", "worker", app, *options],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C is for the demo, which then ends its workers in order
                start_new_session=True,
            )
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "guard", str(self._process.pid)], stdin=subprocess.PIPE, start_new_session=True
        )

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Tell whether the process still runs."""
        return self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it without a word: SIGKILL."""
        self._process.kill()
        self._process.wait()

    async def stop(self) -> int:
        """Let it drain (SIGTERM), kill it when that takes too long, and return its exit code."""
        if self.running:
            self._process.terminate()
        try:
            return await asyncio.to_thread(self._process.wait, STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.returncode

    def discard(self) -> None:
        """Make sure that nothing is left of it."""
        if self.running:
            self.kill()
        # the worker's number is free for others from now on, so the guard goes before its pipe
        self._guard.kill()
        self._guard.communicate()


@contextmanager
def worker_processes() -> Iterator[list[WorkerProcess]]:
    """Lend a list for workers; whatever happens inside, none of those that were put into it is left afterwards."""
    workers: list[WorkerProcess] = []
    try:
        yield workers
    finally:
        for worker in workers:
            worker.discard()


async def run_tidegate(database_url: str, *arguments: str) -> list[str]:
    """Run a ``tidegate`` command to its end and return the lines that it prints.

    Raises:
        RuntimeError: it failed; quotes what it printed.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tidegate", *arguments),
        cwd=EXAMPLES.parent,
        env={**os.environ, "TIDEGATE_DATABASE_URL": database_url},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    output, _ = await process.communicate()
    text = output.decode()
    if process.returncode != 0:
        raise RuntimeError(f"tidegate {' '.join(arguments)} failed:\n{text}")
    return text.splitlines()
