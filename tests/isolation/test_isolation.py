"""Every pair of operations in every order of their steps, driven by PostgreSQL's isolationtester.

Each permutation is judged by its history, its recount, who waited and whether capacity was left unused; then the
outputs are compared with ``expected/``, which ``python -m tests.isolation`` writes and ``reviews.py`` explains. With
``FULL=1`` each BEGIN stands at every place before its operation; otherwise both come first, the hardest place for
whoever takes the beginning of a transaction for the time of a start.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.conftest import Server
from tests.isolation.operations import OPERATIONS, Operation
from tests.isolation.reviews import EXPECTED, rendered
from tests.isolation.schedules import schedules_of
from tests.isolation.stages import Played, perform

FULL = os.environ.get("FULL") == "1"

Play = Callable[[Server], list[Played]]


@pytest.fixture(scope="module")
def play() -> Play:
    """Play all pairs on a server, once."""
    known: dict[str, list[Played]] = {}

    def get(server: Server) -> list[Played]:
        if server.url not in known:
            schedules = [each for operation in OPERATIONS for each in schedules_of(operation, every_begin=FULL)]
            try:
                known[server.url] = perform(server, schedules)
            except FileNotFoundError as error:
                pytest.skip(str(error))
        return known[server.url]

    return get


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_no_order_of_steps_breaks_a_rule_and_each_is_as_reviewed(
    server: Server, play: Play, operation: Operation
) -> None:
    played = [each for each in play(server) if each.outcome.pair.first is operation]
    assert not [each for each in played if each.breaches]
    expected = (EXPECTED / f"{operation.name}.txt").read_text(encoding="utf-8")
    assert rendered([each.outcome for each in played]) == expected


def test_every_pair_is_played_and_something_happens_in_it(server: Server, play: Play) -> None:
    played = play(server)
    assert len({each.outcome.pair.name for each in played}) == len(OPERATIONS) * (len(OPERATIONS) + 1) // 2
    assert len(played) > 5 * len(OPERATIONS) ** 2 // 2
    assert min(each.events for each in played) > 30, "a history is missing"
