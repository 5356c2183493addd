"""Runs the machine on a database of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.postgres.machine.clients import Cleaner, Client
from tests.postgres.machine.machines import ClaimMachine

STEPS = 40
"""Of one example at most."""


@dataclass(slots=True)
class Tally:
    """What was compared: examples, claims judged job by job, and the jobs that those started."""

    examples: int = 0
    exact: int = 0
    started: int = 0


def run_machine(database_url: str, *, examples: int, repeatable: bool = True, shrink: bool = True) -> Tally:
    """Run so many examples in a migrated database.

    Args:
        database_url: of a database for this alone.
        examples: how many.
        repeatable: the same ones in every run.
        shrink: look for a shorter one when an example fails.

    Raises:
        AssertionError: the database did what the model forbids.
    """
    tally = Tally()
    with _opened(database_url) as (clients, cleaner):

        class Machine(ClaimMachine):
            def __init__(self) -> None:
                super().__init__(clients, cleaner)

            def teardown(self) -> None:
                super().teardown()
                tally.examples += 1
                tally.exact += self.beliefs.exact
                tally.started += self.beliefs.started

        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=STEPS,
                derandomize=repeatable,
                database=None,
                deadline=None,
                report_multiple_bugs=False,
                suppress_health_check=list(HealthCheck),
                phases=[Phase.generate, *([Phase.shrink] if shrink else [])],
            ),
        )
    return tally


@contextmanager
def _opened(database_url: str) -> Iterator[tuple[list[Client], Cleaner]]:
    with ExitStack() as stack:
        cleaner = Cleaner(database_url)
        stack.enter_context(closing(cleaner.connection))
        clients = [Client.connect(database_url) for _ in range(3)]
        for client in clients:
            stack.enter_context(closing(client.connection))
        yield clients, cleaner
