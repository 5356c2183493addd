"""The figures in docs/limits.md are those of the code."""

import re
from datetime import timedelta
from inspect import signature
from pathlib import Path

from tidegate import ActorLimits, App, BackpressurePolicy, MessageLimits
from tidegate.flow.intakes import MOST_AT_ONCE
from tidegate.flow.reservations import BYPASS
from tidegate.flow.scopes import worker_limits
from tidegate.model.capacity import STRATEGIES
from tidegate.model.defaults import BACKOFF_FIRST, BACKOFF_MAX, SLOTS
from tidegate.runtime.suspects import SUSPECT_AFTER

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
FUNCTIONS = ROOT / "worker" / "tidegate" / "store" / "functions"


def defaults() -> dict[str, str]:
    section = GUIDE.partition("## Defaults")[2].partition("\n## ")[0]
    return {
        what: default for what, default, why in re.findall(r"^\| (.+?) \| (.+?) \| (.+) \|$", section, re.MULTILINE)
    }


def test_every_default_is_the_one_in_the_code_and_has_a_reason() -> None:
    policy, written = BackpressurePolicy(), defaults()
    named = [f'"{strategy}"' for strategy in policy.strategies]
    assert written == {
        "what": "default",
        "worker, library": f"`MessageLimits(max_messages={worker_limits().max_messages})`",
        "worker, command": f"`--slots {SLOTS}`, no byte budget",
        "channel, router, actor": "none",
        "`on_oversized_payload`": f'`"{MessageLimits().on_oversized_payload}"`',
        "`strategies`": f"`({', '.join(named)})`",
        "`on_unavailable`": f'`"{policy.on_unavailable}"`',
        "`resume_at`": str(policy.resume_at),
        "`actor_limits_propagation`": '`"on"`',
        "overtaking of a waiting message": f"{BYPASS} times at most",
        "a rejected message stays away": "1 s, doubling to 5 min",
        "jobs in one claim": f"{MOST_AT_ONCE} at most",
        "payloads that come with a claim": "1 MiB together",
        "a job runs alone": f"once it lost {SUSPECT_AFTER} workers",
    }
    assert (timedelta(seconds=1), timedelta(minutes=5)) == (BACKOFF_FIRST, BACKOFF_MAX)
    assert "most := 1048576 /" in (FUNCTIONS / "claim.sql").read_text(encoding="utf-8")
    assert "lost + give_back.lose >= 5" in (FUNCTIONS / "give_back.sql").read_text(encoding="utf-8")
    assert ActorLimits().on_oversized_payload == MessageLimits().on_oversized_payload


def test_the_guide_names_every_option_and_strategy() -> None:
    options = {*signature(MessageLimits).parameters, *signature(BackpressurePolicy).parameters} - {"backpressure"}
    options |= {"limits", "limit_policies", *signature(ActorLimits).parameters}
    assert options <= {*signature(App.actor).parameters, *re.findall(r"\w+", GUIDE)}
    assert all(f'| `"{strategy}"` |' in GUIDE for strategy in STRATEGIES)
    assert "```mermaid" in GUIDE
