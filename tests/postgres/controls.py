"""Negative controls: functions broken on purpose. The judge must report them, or its silence says nothing."""

from dataclasses import dataclass
from typing import Any

from tidegate.audit import Invariant


@dataclass(frozen=True, slots=True)
class Control:
    """One fault. ``changes`` are pairs of what the function says and what it says instead.

    Attributes:
        name: of the fault.
        function: in schema ``tidegate``.
        changes: texts to replace.
        breaks: invariants of which the judge must report one; none where the order is wrong, which it does not judge.
    """

    name: str
    function: str
    changes: tuple[tuple[str, str], ...]
    breaks: frozenset[Invariant]


LOCKING = "from keys where key = any(keyed) for no key update"
INSTANT = "greatest(clock_timestamp(), max(last_mark))"

COUNT_WHILE_LOCKING = Control(
    "locks and counts in one statement",
    "claim",
    (
        (
            "max_running, 1000000000) - running",
            "max_running, 1000000000) - (select count(*) from jobs j where j.state = 'running' and j.limit_key = key)",
        ),
        (f"{LOCKING} skip locked", LOCKING),
    ),
    frozenset({Invariant.RUNNING}),
)

COUNT_WITHOUT_LOCK = Control(
    "counts without the key's lock",
    "claim",
    ((f"{LOCKING} skip locked", "from keys where key = any(keyed)"),),
    frozenset({Invariant.RUNNING, Invariant.STARTS}),
)

TRANSACTION_TIME = Control(
    "dates starts by the beginning of the transaction",
    "claim",
    ((INSTANT, INSTANT.replace("clock", "transaction")),),
    frozenset({Invariant.STARTS}),
)

EARLIER_TIME = Control(
    "dates starts 5 ms before the transaction",
    "claim",
    ((INSTANT, INSTANT.replace("clock_timestamp()", "transaction_timestamp() - interval '5 ms'")),),
    frozenset({Invariant.STARTS}),
)

NO_TOKEN = Control(
    "finishes without a token",
    "finish_jobs",
    (("where r.worker is not distinct from finish_jobs.worker and r.claim = u.token and r.state", "where r.state"),),
    frozenset({Invariant.TOKEN, Invariant.LOST}),
)

LANE_SKIPPED = Control(
    "does not update a lane",
    "claim",
    (("running = l.running + 1", "running = l.running"),),
    frozenset({Invariant.DRIFT}),
)

KEY_SKIPPED = Control(
    "does not update a key",
    "claim",
    (("set running = m.running + 1", "set running = m.running"),),
    frozenset({Invariant.DRIFT, Invariant.RUNNING}),
)

EARLY_INSTANT = Control(
    "reads the instant of a start before it locks the key",
    "claim",
    ((INSTANT, "at"),),
    frozenset({Invariant.STARTS}),
)

REPEATABLE_READ = Control(
    "takes a snapshot that is older than its locks",
    "require_read_committed",
    (("<> 'read committed'", "is null"),),
    frozenset({Invariant.RUNNING, Invariant.STARTS, Invariant.DRIFT}),
)

FOLD_BEFORE_LOCK = Control(
    "folds the mail before it locks the queue",
    "claim",
    (
        (
            "  loop\n    select w.draining_at",
            "  perform fold_mail(p_queue, 64);\n  loop\n    select w.draining_at",
        ),
    ),
    frozenset({Invariant.DRIFT, Invariant.LOST}),
)

BELOW_LOW_WATER = Control(
    "leaves a scheduled job below its low water",
    "fold_mail",
    (("coalesce((later_at, later_id) < (q.due_at, q.due_id), false)", "false"),),
    frozenset({Invariant.LOST}),
)

REOPENING_SKIPPED = Control(
    "frees a key and posts no reopening",
    "free_keys",
    (("perform reopen(waited);", ""),),
    frozenset({Invariant.LOST}),
)

WAKE_SKIPPED = Control(
    "wakes a key and posts no reopening",
    "wake",
    (("perform tidegate.reopen(held);", ""),),
    frozenset({Invariant.LOST}),
)

ORDER_STANDS_STILL = Control(
    "does not move the fair count with each pick",
    "choose_jobs",
    (("l.rank + (j.k - 1) * l.step", "l.rank"),),
    frozenset(),
)

BUDGET_IGNORED = Control(
    "starts what does not fit the budget",
    "choose_jobs",
    (("if c.bytes > budget then", "if false then"),),
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
    """Break the function in this database.

    Raises:
        LookupError: the function no longer says what the control replaces; break it in another way.
    """
    source: str = await connection.fetchval(
        "select pg_get_functiondef($1::text::regproc)", f"tidegate.{control.function}"
    )
    for right, wrong in control.changes:
        if right not in source:
            raise LookupError(f"{control.function} no longer says {right!r}; break it in another way")
        source = source.replace(right, wrong)
    await connection.execute(source)
