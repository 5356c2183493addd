"""Workers killed under a changing load: no limit broken, nothing lost, and a judge that sees what was planted.

``TIDEGATE_SOAK_SECONDS`` sets its length; ``python -m tests.postgres.soaking`` is the form of a minute, with a report.
"""

import os
from pathlib import Path

import pytest

from tests.postgres.soaking.crews import Plan
from tests.postgres.soaking.runs import soak

SECONDS = float(os.environ.get("TIDEGATE_SOAK_SECONDS", "20"))


@pytest.mark.slow
async def test_no_rule_is_broken_while_workers_die(database_url: str, tmp_path: Path) -> None:
    soaked = await soak(database_url, Plan(seconds=SECONDS), tmp_path)
    failed = [f"{figure.name}: {figure.value}" for figure in soaked.figures() if not figure.holds]
    assert not failed, f"{failed}\n{soaked.verdict}\n{soaked.fates.bad_exits}"
