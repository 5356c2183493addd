"""docs/kubernetes.md lists every reason that a condition may have: whoever meets one can look it up."""

from __future__ import annotations

import re
from pathlib import Path

import tidegate_operator
import tidegate_operator.reconcile.scaling as decisions
from tidegate_operator.conditions import Reason

GUIDE = Path(__file__).parents[2] / "docs" / "kubernetes.md"
SOURCES = sorted(Path(decisions.__file__).parent.glob("scaling*.py"))

NO_REASONS = {"ScalingActive", "ScalingLimited", "True", "False", "Auto", "Manual", "Off"}


def test_every_reason_is_listed_with_what_to_do() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    listed = {word for line in text.splitlines() if line.startswith("| `") for word in re.findall(r"`(\w+)`", line)}
    source = "".join(path.read_text(encoding="utf-8") for path in SOURCES)
    # every word in quotes with a capital, but types, statuses and modes of scaling
    found = set(re.findall(r'"([A-Z][A-Za-z]+)"', source)) - NO_REASONS
    assert {"Draining", "UnreadyPods", "AtMaximum", "OtherAutoscaler", "RolloutInProgress"} <= found
    # never shown: an observation always has a Deployment or says that there is none
    assert found - {"NothingSeen"} - listed == set()
    assert {str(reason) for reason in Reason} - listed == set()


def test_every_event_is_listed_too() -> None:
    listed = set(re.findall(r"`(\w+)`", GUIDE.read_text(encoding="utf-8").split("### Events")[1].split("###")[0]))
    source = "".join(path.read_text(encoding="utf-8") for path in Path(tidegate_operator.__file__).parent.rglob("*.py"))
    told = set(re.findall(r'Notice\(\s*[\w.]+,\s*"(\w+)"', source))
    assert told
    assert told - listed == set()
