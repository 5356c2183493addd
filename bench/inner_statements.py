"""How many statements one call runs inside of its functions, and how often one is planned anew, by pg_stat_statements.

The embedded server has no extensions, so this starts an installed one (Debian's, say) for itself and is left out where
there is none. A claim is a fixed number of statements however many jobs it takes, and none is ever planned anew.
"""

from pathlib import Path
from typing import Any

from bench.backlogs import Load, fill, hold_autovacuum, order_queue
from bench.claimants import SLOTS, Claimant
from bench.databases import connection, database
from bench.forms import Form
from bench.rows import Row
from tidegate.store.embedded import temporary_server

INSTALLED = Path("/usr/lib/postgresql")

SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track": "all",
    "pg_stat_statements.track_planning": "on",
}

WARM = 20
"""Turns before the count, in which every statement gets its plan."""

_COUNT = """
select coalesce(sum(calls), 0)::bigint statements, coalesce(sum(plans), 0)::bigint plans,
       coalesce(sum(calls) filter (where toplevel), 0)::bigint sent
  from pg_stat_statements s join pg_database d on d.oid = s.dbid
 where d.datname = current_database() and query !~ 'pg_stat_statements'
"""

CLAIM_BOUND = 16.0
MAIL_BOUND = 64.0
"""Statements of a claim with a hand-in, and of it with eight single inserts before, whose mail it folds."""


async def measure_inner_statements(server_url: str, form: Form) -> list[Row]:  # noqa: ARG001 - it has a server of its own
    """Return the rows of this module, none where no server with the extension is installed."""
    binaries = _installed()
    if binaries is None:
        return []
    turns = form.pick(50, 200, 200)
    with temporary_server(options=SETTINGS, binaries=binaries) as server:
        async with database(server.url) as url, connection(url) as connected:
            await connected.execute("create extension pg_stat_statements schema public")
            await hold_autovacuum(connected)
            await order_queue(connected, "fair")
            await fill(connected, Load(jobs=40_000))
            claimant = await Claimant.open(connected)
            quiet = await _count(connected, claimant, turns, 0)
            news = await _count(connected, claimant, turns, SLOTS)
    return [
        _row(f"one claim of {SLOTS} with a hand-in", quiet, turns, CLAIM_BOUND),
        _row(f"{SLOTS} single inserts, then one claim of {SLOTS} with a hand-in", news, turns, MAIL_BOUND),
        Row(
            name="plans made anew by a claim",
            value=quiet["plans"] / turns,
            unit="plans",
            bar=0,
            samples=turns,
            note=f"after {WARM} turns; {news['plans'] / turns / SLOTS:.1f} by a single insert",
            timed=False,
        ),
    ]


def _installed() -> Path | None:
    found = [path for path in INSTALLED.glob("*/bin") if (path.parent / "lib" / "pg_stat_statements.so").exists()]
    return max(found, key=lambda path: int(path.parent.name), default=None)


async def _count(connected: Any, claimant: Claimant, turns: int, puts: int) -> Any:
    for turn in range(WARM + turns):
        if turn == WARM:
            await connected.execute("select public.pg_stat_statements_reset()")
        await claimant.turn([f"key-{(turn * puts + number) * 7 % 1_000}" for number in range(puts)])
    return await connected.fetchrow(_COUNT)


def _row(what: str, seen: Any, turns: int, bar: float) -> Row:
    return Row(
        name=f"statements run by {what}, those inside of functions included",
        value=seen["statements"] / turns,
        unit="statements",
        bar=bar,
        samples=turns,
        note=f"{seen['sent'] / turns:.1f} sent by the client",
        timed=False,
    )
