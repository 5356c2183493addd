"""What the screen shows, read from the database the way anybody may read it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tidegate import list_limits
from tidegate.model.limits import LimitStatus
from tidegate.store.engine import Engine

DONE = "select limit_key, count(*) as n from tidegate.history where state = 'succeeded' group by limit_key"

RESCUED = "select count(*) from tidegate_audit.events where kind = 'rescued'"

WORKERS = """
select w.name, w.alive, count(j.id) as running, extract(epoch from clock_timestamp() - w.seen_at)::float8 as silent
  from tidegate.workers w left join tidegate.jobs j on j.worker = w.id and j.state = 'running'
 group by w.id, w.name, w.alive, w.seen_at order by w.name"""

CLOCK = "select clock_timestamp()"


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker as the database sees it; ``silent`` is seconds since its last heartbeat."""

    name: str
    alive: bool
    running: int
    silent: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look. ``done`` is jobs by key, ``at`` is the database's clock."""

    at: datetime
    limits: Sequence[LimitStatus] = ()
    done: Mapping[str, int] = field(default_factory=dict)
    workers: Sequence[WorkerRow] = ()
    rescued: int = 0

    @property
    def finished(self) -> int:
        """Jobs that succeeded so far."""
        return sum(self.done.values())

    def running_on(self, worker: str) -> int:
        """Return how many jobs a worker runs."""
        return sum(row.running for row in self.workers if row.name == worker)

    def waiting(self, key: str) -> int:
        """Return how many jobs of a key wait."""
        return sum(limit.waiting for limit in self.limits if limit.key == key)


async def look(engine: Engine) -> Snapshot:
    """Read everything that the screen shows."""
    return Snapshot(
        at=await engine.fetchval(CLOCK),
        limits=await list_limits(engine),
        done={row["limit_key"]: row["n"] for row in await engine.fetch(DONE)},
        workers=[WorkerRow(**dict(row)) for row in await engine.fetch(WORKERS)],
        rescued=await engine.fetchval(RESCUED),
    )
