"""Worker processes as users start them, and places at which their jobs stop."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.postgres.workers_at_work import DEADLINE, until

FOLDER = Path(__file__).parent


@dataclass
class Place:
    """Where one job of `held_jobs` stops."""

    path: Path

    async def entered_by(self, process: "WorkerProcess | None" = None) -> None:
        """Wait until a job is there, run by this process where one is named."""

        async def look() -> bool:
            return str(process.pid) in self.visitors if process else bool(self.visitors)

        await until(look)

    @property
    def visitors(self) -> list[str]:
        """Process ids of those who came, in order."""
        entered = Path(f"{self.path}.entered")
        return entered.read_text(encoding="utf-8").split() if entered.exists() else []

    def open(self) -> None:
        """Let the job go on, and all that come later."""
        self.tell("leave")

    def tell(self, what: str) -> None:
        """Leave a file of that ending for the jobs there."""
        Path(f"{self.path}.{what}").touch()


class WorkerProcess:
    """``tidegate worker held_jobs:app`` with these options."""

    def __init__(self, database_url: str, log: Path, *options: str) -> None:
        self.log = log
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tidegate", "worker", "held_jobs:app", *options],
                cwd=FOLDER,
                env={**environment, "TIDEGATE_DATABASE_URL": database_url},
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def says(self, text: str) -> None:
        """Wait for a text in its log."""

        async def look() -> bool:
            return text in self.log.read_text(encoding="utf-8")

        await until(look)

    async def ended(self) -> int:
        """Wait for its end, and return its exit code."""
        return await asyncio.to_thread(self._process.wait, DEADLINE)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Workers:
    """Starts worker processes; all are killed at the end."""

    def __init__(self, database_url: str, folder: Path, stack: ExitStack) -> None:
        self._database_url = database_url
        self._folder = folder
        self._stack = stack
        self._started = 0

    def start(self, *options: str, database_url: str | None = None) -> WorkerProcess:
        self._started += 1
        log = self._folder / f"worker-{self._started}.log"
        process = WorkerProcess(database_url or self._database_url, log, *options)
        self._stack.callback(process.kill)
        return process

    def place(self, name: str) -> Place:
        return Place(self._folder / name)


@contextmanager
def worker_processes(database_url: str, folder: Path) -> Iterator[Workers]:
    with ExitStack() as stack:
        yield Workers(database_url, folder, stack)
