"""Negative controls: each known mistake, planted into the functions, is reported by one of the three machine proofs.

By the schedules of `isolation`, by a storm, or by the machine and its model. What a detector reports does not depend
on the release of the server, so one is enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

import asyncpg
import pytest
from hypothesis.errors import Flaky

from tests.conftest import Server, server_ids
from tests.isolation.operations import OPERATIONS
from tests.isolation.schedules import Pair
from tests.isolation.stages import perform
from tests.postgres import controls
from tests.postgres.controls import Control, plant
from tests.postgres.machine.runs import run_machine
from tests.postgres.storms import storm
from tests.postgres.test_claim_storm import FORMS


@pytest.fixture
def one_server(pytestconfig: pytest.Config, servers: Callable[[str], Server]) -> Server:
    return servers(server_ids(pytestconfig)[0])


@pytest.fixture
def one_database(one_server: Server) -> Iterator[str]:
    with one_server.database(one_server.template) as url:
        yield url


@pytest.mark.parametrize(
    ("control", "first", "second", "words"),
    [
        (controls.TRANSACTION_TIME, "claim", "enqueue", "before its transaction began"),
        (controls.COUNT_WITHOUT_LOCK, "claim", "claim-from-b", "as number 3 of at most 2"),
        (controls.COUNT_WHILE_LOCKING, "claim", "claim-from-b", "by what it locks: nobody"),
        (controls.REOPENING_SKIPPED, "claim-that-closes-a-gate", "ack", "nobody was told"),
        (controls.WAKE_SKIPPED, "claim-that-closes-a-gate", "ack", "nobody was told"),
    ],
    ids=lambda value: value.name if isinstance(value, Control) else None,
)
def test_schedules_report(one_server: Server, control: Control, first: str, second: str, words: str) -> None:
    named = {operation.name: operation for operation in OPERATIONS}
    pair = Pair(named[first], named[second])
    schedules = [(pair, steps) for steps in pair.orders(every_begin=False)]
    try:
        played = perform(one_server, schedules, prepare=partial(plant, control=control))
    except FileNotFoundError as error:
        pytest.skip(str(error))
    assert words in "\n".join(breach for each in played for breach in each.breaches)


@pytest.mark.parametrize(
    ("control", "form", "operations", "words"),
    [
        (controls.EARLY_INSTANT, "several lanes a group", 1200, "before its key was locked"),
        (controls.LANE_SKIPPED, "one lane a group", 400, "lane running"),
        (controls.FOLD_BEFORE_LOCK, "several lanes a group", 600, "deadlock detected"),
        (controls.REPEATABLE_READ, "several lanes a group", 400, "could not serialize access"),
    ],
    ids=lambda value: value.name if isinstance(value, Control) else None,
)
async def test_a_storm_reports(one_database: str, control: Control, form: str, operations: int, words: str) -> None:
    settings = {"deadlock_timeout": "20ms"}
    if control is controls.REPEATABLE_READ:
        settings["default_transaction_isolation"] = "repeatable read"
    aftermath = await storm(
        one_database,
        next(each for each in FORMS if each.name == form),
        operations,
        prepare=partial(plant, control=control),
        settings=settings,
        drain_seconds=3,
    )
    assert words in "\n".join(aftermath.complaints())


@pytest.mark.parametrize(
    ("control", "words"),
    [
        (controls.NO_TOKEN, ""),
        (controls.KEY_SKIPPED, "key running"),
        (controls.BELOW_LOW_WATER, " must: "),
        (controls.ORDER_STANDS_STILL, " must: "),
        (controls.BUDGET_IGNORED, "bytes started"),
    ],
    ids=lambda value: value.name if isinstance(value, Control) else None,
)
def test_the_machine_reports(one_database: str, control: Control, words: str) -> None:
    asyncio.run(_plant(one_database, control))
    with pytest.raises((AssertionError, Flaky)) as reported:
        run_machine(one_database, examples=400, shrink=False)
    assert words in str(reported.value)


async def _plant(database_url: str, control: Control) -> None:
    connection = await asyncpg.connect(database_url)
    await plant(connection, control)
    await connection.close()
