"""docs/sql.md, from the headers of functions and views: ``write`` makes it, ``check`` fails when it differs."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from generated import ROOT, run

PAGE = ROOT / "docs" / "sql.md"
FUNCTIONS = ROOT / "worker" / "tidegate" / "store" / "functions"

CHAPTERS = {
    "Jobs": ["enqueue", "enqueue_many", "cancel", "retry"],
    "Limits and queues": ["set_limit", "change_limit", "clear_limit", "set_queue", "set_max_payload_bytes"],
    "Workers": [
        "register_worker",
        "claim",
        "payload_of",
        "ack",
        "nack",
        "release",
        "wake",
        "heartbeat",
        "leave",
        "drain_worker",
        "rescue",
        "sleep_on",
        "probe",
    ],
    "Views": ["view_job_status", "view_limit_status", "view_queue_status", "view_queue_demand"],
    "Keeping house": ["maintain", "recount", "grant_access"],
}

INTRODUCTION = Path(__file__).with_name("sql_introduction.md")


def page() -> str:
    """Return the whole page."""
    return INTRODUCTION.read_text(encoding="utf-8") + "".join(
        f"\n## {chapter}\n" + "".join(section for name in names for section in _section(name))
        for chapter, names in CHAPTERS.items()
    )


def _section(name: str) -> Iterator[str]:
    text = (FUNCTIONS / f"{name}.sql").read_text(encoding="utf-8")
    header = " ".join(line.removeprefix("--").strip() for line in text.splitlines() if line.startswith("--"))
    header = header.replace("Locks:", "*Locks:*", 1).replace("Cost:", "*Cost:*", 1)
    yield f"\n### {name.removeprefix('view_')}\n\n"
    found = re.search(r"create or replace (?:function|procedure) tidegate\.(\w+\(.*?)\s+language", text, re.DOTALL)
    if found:
        yield "```text\n" + " ".join(found[1].split()) + "\n```\n\n"
    yield f"{header}\n"


def files() -> dict[Path, str]:
    """Return the page where it belongs."""
    return {PAGE: page()}


if __name__ == "__main__":
    sys.exit(run(files))
