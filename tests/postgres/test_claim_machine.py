"""Random histories against a model, several transactions open at once: 200 examples a server, ``FULL=1`` for 2,000."""

from __future__ import annotations

import os

from tests.postgres.machine.runs import run_machine

FULL = os.environ.get("FULL") == "1"


def test_every_claim_is_what_the_model_decides(database_url: str) -> None:
    tally = run_machine(database_url, examples=2000 if FULL else 200, repeatable=not FULL)
    assert tally.exact > 5 * tally.examples, f"hardly any claim was compared: {tally}"
    assert tally.started > 5 * tally.examples, f"hardly anything started: {tally}"
