"""The workers of a soak: so many of them, always, whatever happens to each."""

import asyncio
import random
import signal
from dataclasses import dataclass, field
from pathlib import Path

from examples.demonstration.processes import WorkerProcess

ROOT = Path(__file__).resolve().parents[3]

LEASE_SECONDS = 5

FREEZE_SECONDS = LEASE_SECONDS * 1.4
"""Long enough to be rescued for sure."""

OPTIONS = ("--slots", "8", "--lease", f"{LEASE_SECONDS}s", "--grace", "2s", "--log-level", "warning")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long, how many, and how often what happens to a worker. All times are seconds.

    Attributes:
        seconds: of load.
        drain_seconds: for all jobs to end once nothing holds them: a lease, a rescue, three backoffs, a slow machine.
        kill_every: SIGKILL, and another one takes its place.
        stop_every: SIGTERM, after another one has taken its place.
        freeze_every: SIGSTOP until its lease is long over; then it goes on with what it believes to hold.
    """

    seconds: float
    drain_seconds: float = 120.0
    workers: int = 6
    keys: int = 200
    kill_every: float = 5.0
    stop_every: float = 7.0
    freeze_every: float = 4.0
    seed: int = 1


@dataclass(slots=True)
class Fates:
    """What happened to whom, by name. ``bad_exits`` are sentences."""

    killed: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    frozen: list[str] = field(default_factory=list)
    bad_exits: list[str] = field(default_factory=list)


class Crew:
    """Hires workers and does things to them; `kill`, `stop` and `freeze` are loops that run until they are cancelled.

    Args:
        workers: every process is put here, for whoever cleans up.
        database_url: of the soak.
        logs: folder for the workers' logs.
        plan: how often.
        fates: what is written down.
        dice: where all chance comes from.
    """

    def __init__(
        self,
        workers: list[WorkerProcess],
        database_url: str,
        logs: Path,
        *,
        plan: Plan,
        fates: Fates,
        dice: random.Random,
    ) -> None:
        self._all = workers
        self._serving: list[WorkerProcess] = []
        self._url, self._logs, self._plan, self._fates, self._dice = database_url, logs, plan, fates, dice

    def hire(self) -> None:
        """Start one more."""
        worker = WorkerProcess(
            f"soak-{len(self._all) + 1}",
            app="tests.postgres.soaking.app:app",
            folder=ROOT,
            database_url=self._url,
            logs=self._logs,
            options=OPTIONS,
        )
        self._all.append(worker)
        self._serving.append(worker)

    async def kill(self) -> None:
        """Kill one now and then."""
        while True:
            await asyncio.sleep(self._plan.kill_every)
            worker = self._pick()
            worker.kill()
            self._fates.killed.append(worker.name)
            self.hire()

    async def stop(self) -> None:
        """Let one drain now and then."""
        while True:
            await asyncio.sleep(self._plan.stop_every)
            worker = self._pick()
            self.hire()
            await self._end(worker)

    async def freeze(self) -> None:
        """Take all time from one now and then."""
        while True:
            await asyncio.sleep(self._plan.freeze_every)
            worker = self._pick()
            self._fates.frozen.append(worker.name)
            worker.send(signal.SIGSTOP)
            try:
                await asyncio.sleep(FREEZE_SECONDS)
            finally:
                worker.send(signal.SIGCONT)
                self._serving.append(worker)

    async def dismiss(self) -> None:
        """Let all drain; whoever has ended before did so by itself."""
        for worker in self._serving:
            if not worker.running:
                self._fates.bad_exits.append(f"{worker.name} ended by itself, see {worker.log}")
        await asyncio.gather(*(self._end(worker) for worker in self._serving))

    def _pick(self) -> WorkerProcess:
        return self._serving.pop(self._dice.randrange(len(self._serving)))

    async def _end(self, worker: WorkerProcess) -> None:
        self._fates.stopped.append(worker.name)
        code = await worker.stop()
        # one that was hired just now may be told before it has begun to listen
        if code not in {0, -signal.SIGTERM}:
            self._fates.bad_exits.append(f"{worker.name} ended with {code}, see {worker.log}")
