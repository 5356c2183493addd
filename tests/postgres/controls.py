"""Negative controls: functions broken on purpose. The judge must report them, or its silence says nothing."""

from dataclasses import dataclass
from typing import Any

from tidegate.audit import Invariant


@dataclass(frozen=True, slots=True)
class Control:
    """One fault, planted wherever the functions would have to make it.

    Attributes:
        name: of the fault.
        changes: by function in schema ``tidegate``, pairs of what it says and what it says instead.
        breaks: invariants of which the judge must report one; none where the order is wrong, which it does not judge.
    """

    name: str
    changes: dict[str, tuple[tuple[str, str], ...]]
    breaks: frozenset[Invariant]


LOCKING = "from keys where key = any(p.keys) for no key update"


def _dated(instant: str) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return what dates all starts by something else than the clock after the last lock."""
    return {
        "claim": (("greatest(clock_timestamp(), max(last_mark))", f"greatest({instant}, max(last_mark))"),),
        "hold_keys": (("greatest(clock_timestamp(), last, held.at)", f"greatest({instant}, last, held.at)"),),
        "admit_keys": (("greatest(held.at, clock_timestamp())", "held.at"),),
    }


COUNT_WHILE_LOCKING = Control(
    "locks and counts in one statement",
    {
        "claim": (
            (
                "running >= max_running or",
                "(select count(*) from jobs j where j.state = 'running' and j.limit_key = key) >= max_running or",
            ),
            (f"{LOCKING} skip locked", LOCKING),
        )
    },
    frozenset({Invariant.RUNNING}),
)

COUNT_WITHOUT_LOCK = Control(
    "counts without the key's lock",
    {
        "claim": ((f"{LOCKING} skip locked", "from keys where key = any(p.keys)"),),
        "hold_keys": (("where key = any(wanted) for no key update skip locked", "where key = any(wanted)"),),
    },
    frozenset({Invariant.RUNNING, Invariant.STARTS}),
)

TRANSACTION_TIME = Control(
    "dates starts by the beginning of the transaction",
    _dated("transaction_timestamp()"),
    frozenset({Invariant.STARTS}),
)

EARLIER_TIME = Control(
    "dates starts 5 ms before the transaction",
    _dated("transaction_timestamp() - interval '5 ms'"),
    frozenset({Invariant.STARTS}),
)

NO_TOKEN = Control(
    "finishes without a token",
    {
        "finish_jobs": (
            (
                "where r.worker is not distinct from finish_jobs.worker and r.claim = u.token and r.state",
                "where r.state",
            ),
        )
    },
    frozenset({Invariant.TOKEN, Invariant.LOST}),
)

LANE_SKIPPED = Control(
    "does not update a lane",
    {"claim": (("running = l.running + 1", "running = l.running"),)},
    frozenset({Invariant.DRIFT}),
)

KEY_SKIPPED = Control(
    "does not update a key",
    {"claim": (("set running = m.running + 1", "set running = m.running"),)},
    frozenset({Invariant.DRIFT, Invariant.RUNNING}),
)

EARLY_INSTANT = Control(
    "reads the instant of a start before it locks the key",
    _dated("at") | {"hold_keys": (("greatest(clock_timestamp(), last, held.at)", "held.at"),)},
    frozenset({Invariant.STARTS}),
)

REPEATABLE_READ = Control(
    "takes a snapshot that is older than its locks",
    {"require_read_committed": (("<> 'read committed'", "is null"),)},
    frozenset({Invariant.RUNNING, Invariant.STARTS, Invariant.DRIFT}),
)

FOLD_BEFORE_LOCK = Control(
    "folds the mail before it locks the queue",
    {
        "claim": (
            (
                "  loop\n    select w.draining_at",
                "  perform fold_mail(p_queue, 64);\n  loop\n    select w.draining_at",
            ),
        )
    },
    frozenset({Invariant.DRIFT, Invariant.LOST}),
)

BELOW_LOW_WATER = Control(
    "leaves a scheduled job below its low water",
    {"fold_mail": (("coalesce((later_at, later_id) < (q.due_from, q.due_id), false)", "false"),)},
    frozenset({Invariant.LOST}),
)

REOPENING_SKIPPED = Control(
    "frees a key and posts no reopening",
    {"free_keys": (("perform reopen(waited);", ""),)},
    frozenset({Invariant.LOST}),
)

WAKE_SKIPPED = Control(
    "wakes a key and posts no reopening",
    {"wake": (("perform tidegate.reopen(held);", ""),)},
    frozenset({Invariant.LOST}),
)

ORDER_STANDS_STILL = Control(
    "does not move the fair count with each pick",
    {"choose_jobs": (("(l.running + j.ahead) / l.weight", "l.rank"),)},
    frozenset(),
)

BUDGET_IGNORED = Control(
    "starts what does not fit the budget",
    {"choose_jobs": (("if c.bytes > budget then", "if false then"),)},
    frozenset(),
)

LOUD = (
    COUNT_WITHOUT_LOCK,
    TRANSACTION_TIME,
    EARLIER_TIME,
    LANE_SKIPPED,
    KEY_SKIPPED,
)
"""Those that a few seconds of load show. The others need two to meet at one moment, which ``test_audit`` arranges."""


async def plant(connection: Any, control: Control) -> None:
    """Break the functions in this database.

    Raises:
        LookupError: a function no longer says what the control replaces; break it in another way.
    """
    for function, changes in control.changes.items():
        source: str = await connection.fetchval("select pg_get_functiondef($1::text::regproc)", f"tidegate.{function}")
        for right, wrong in changes:
            if right not in source:
                raise LookupError(f"{function} no longer says {right!r}; break it in another way")
            source = source.replace(right, wrong)
        await connection.execute(source)
