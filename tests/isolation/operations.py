"""What two transactions may do to each other: every operation, what it locks, and so who waits for whom.

The scene is that of ``scene.sql``. An operation is played by worker one, who runs ``k1``, or by worker two, who runs
``f1``; ``{me}`` and ``{mine}`` stand for those. What it locks is what the header of its function promises. From that it
is decided here, and not recorded, which of two operations waits: an expected output can never excuse a lock too many.
"""

from dataclasses import dataclass
from enum import IntEnum


class Mode(IntEnum):
    """Strength of a row lock."""

    KEY_SHARE = 1
    NO_KEY_UPDATE = 2
    UPDATE = 3

    def conflicts_with(self, other: "Mode") -> bool:
        """Tell whether two transactions cannot hold both."""
        return max(self, other) is Mode.UPDATE or self is other is Mode.NO_KEY_UPDATE


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock on a row.

    Attributes:
        row: such as ``queue a``.
        waits: for whoever holds it; False steps over it (SKIP LOCKED).
        behind: a row that must be free too, or this one is not even tried.
    """

    row: str
    mode: Mode
    waits: bool = True
    behind: str | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """One call. ``locks``: when it comes first, with everything free."""

    name: str
    sql: str
    locks: tuple[Lock, ...] = ()


def _share(row: str) -> Lock:
    return Lock(row, Mode.KEY_SHARE)


def _change(row: str) -> Lock:
    return Lock(row, Mode.NO_KEY_UPDATE)


def _own(row: str) -> Lock:
    return Lock(row, Mode.UPDATE)


def _skip(*rows: str) -> tuple[Lock, ...]:
    return tuple(Lock(row, Mode.NO_KEY_UPDATE, waits=False) for row in rows)


CLAIMED = _skip("key k", "key s", "job k2", "job s1", "job o1", "job d1")
"""What a claim from queue a takes in passing; f is full and its lanes are out of sight."""

OPERATIONS = (
    Operation("claim", "scene.claim({me}, 'a')", (_share("worker {me}"), _change("queue a"), *CLAIMED)),
    Operation(
        "claim-from-b",
        "scene.claim({me}, 'b')",
        (_share("worker {me}"), _change("queue b"), *_skip("key k", "key s", "job k3", "job s2")),
    ),
    Operation(
        "claim-that-closes-a-gate",
        "scene.close_gate({me})",
        (_share("worker {me}"), _change("queue c"), *_skip("key f", "job c{me}")),
    ),
    Operation(
        "fair-claim", "scene.claim({me}, 'a', fair => true)", (_share("worker {me}"), _change("queue a"), *CLAIMED)
    ),
    Operation(
        "hand-in",
        "scene.claim({me}, 'a', '{mine}')",
        (
            _share("worker {me}"),
            _change("queue a"),
            Lock("job {mine}", Mode.UPDATE, waits=False),
            *_skip("key {key}", "job f2"),
            *CLAIMED,
        ),
    ),
    Operation("ack", "scene.ack({me}, '{mine}')", (_own("job {mine}"), *_skip("key {key}"))),
    Operation("nack", "scene.nack({me}, '{mine}')", (_own("job {mine}"), *_skip("key {key}"))),
    Operation("release", "scene.release({me}, '{mine}')", (_own("job {mine}"), *_skip("key {key}"))),
    Operation(
        "rescue",
        "scene.rescue()",
        (
            Lock("worker 1", Mode.UPDATE, waits=False),
            Lock("worker 2", Mode.UPDATE, waits=False),
            Lock("job k1", Mode.UPDATE, behind="worker 1"),
            Lock("job f1", Mode.UPDATE, behind="worker 2"),
            *_skip("key k", "key f"),
        ),
    ),
    Operation("heartbeat", "scene.heartbeat({me}, array[scene.job('{mine}')], array[1], 1)", (_change("worker {me}"),)),
    Operation(
        "heartbeat-that-lost-its-claim",
        "scene.heartbeat({me}, array[]::bigint[], array[]::bigint[], 3)",
        (_change("worker {me}"), _own("job {mine}"), *_skip("key {key}")),
    ),
    Operation("lower-limit", "scene.limited('k', 'max_running', 1)", (_change("key k"),)),
    Operation("raise-limit", "scene.limited('f', 'max_running', 2)", (_change("key f"),)),
    Operation("clear-limit", "tidegate.clear_limit('k')", (_change("key k"),)),
    Operation("suspend", "scene.suspend(true)", (_change("queue a"),)),
    Operation("cancel-waiting", "tidegate.cancel(scene.job('k2'))", (_own("job k2"),)),
    Operation("cancel-running", "tidegate.cancel(scene.job('{mine}'))", (_change("job {mine}"),)),
    Operation("enqueue", "scene.put('a', 'k', 'n{me}', priority => 9)"),
    Operation("leave", "scene.leave({me})", (_own("worker {me}"), _own("job {mine}"), *_skip("key {key}"))),
    Operation("drain", "tidegate.drain_worker(scene.worker({me}))", (_own("worker {me}"),)),
    Operation("retry", "tidegate.retry(scene.job('z1'))", (_change("job z1"),)),
    Operation("sweep", "tidegate.sweep_queue('a', 100)", (_change("queue a"), *_skip("job d1"))),
    Operation("wake", "scene.wake()", _skip("key k", "key f", "key s")),
)


@dataclass(frozen=True, slots=True)
class Part:
    """An operation as one of the two workers plays it."""

    me: int
    operation: Operation

    @property
    def sql(self) -> str:
        """The statement's expression; a specification has no room for braces."""
        return self._told(self.operation.sql)

    @property
    def locks(self) -> tuple[Lock, ...]:
        """Its locks, by the names of rows."""
        return tuple(Lock(self._told(lock.row), lock.mode, lock.waits, lock.behind) for lock in self.operation.locks)

    def _told(self, text: str) -> str:
        mine = {1: "k1", 2: "f1"}[self.me]
        return text.format(me=self.me, mine=mine, key=mine[0])

    def waits_for(self, first: "Part") -> bool:
        """Tell whether this one, coming second, waits for the transaction of the first."""
        held = {lock.row: lock.mode for lock in first.locks}

        def taken(row: str | None, mode: Mode) -> bool:
            return row in held and held[row].conflicts_with(mode)

        return any(
            lock.waits and taken(lock.row, lock.mode) and not taken(lock.behind, Mode.UPDATE) for lock in self.locks
        )
