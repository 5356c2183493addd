import json
from datetime import timedelta
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg.rows import dict_row

from tests.commands import tidegate_command
from tests.examples_table import LIMIT_OBJECTS, QUEUE_OBJECTS, ObjectCase

MANIFEST = """\
apiVersion: tidegate.dev/v1alpha1
kind: Limit
metadata: {name: vendor-x}
spec:
  maxRunning: 4
  rate: {maxStarts: 100, window: 1m}
---
apiVersion: tidegate.dev/v1alpha1
kind: Queue
metadata: {name: mail}
spec:
  order: Fair
  defaults: {maxAttempts: 3, timeout: 10m}
  retention: {succeeded: 0s}
  workers: {deploymentRef: {name: mail-worker}}
"""
OWNER = '{"cluster": "c1", "namespace": "team-a", "name": "vendor", "uid": "u"}'


LIMITS = "select key, max_running, max_starts, rate_window, weight, owner from tidegate.limits order by key"
QUEUES = (
    "select name, declared_order, suspended, held_by_hand, default_priority, default_max_attempts, default_timeout,"
    " keep_succeeded, keep_dead, owner from tidegate.queues order by name"
)


def rows(database_url: str, table: LiteralString) -> list[dict[str, Any]]:
    with psycopg.connect(database_url, row_factory=dict_row) as connection:
        return connection.execute(table).fetchall()


def test_apply_writes_what_differs_and_says_it(database_url: str, tmp_path: Path) -> None:
    file = tmp_path / "limits.yaml"
    file.write_text(MANIFEST)

    tried = tidegate_command("apply", "-f", str(file), "--dry-run", database_url=database_url)
    assert tried.code == 0
    assert all(line.endswith(" (dry run)") for line in tried.lines)
    assert rows(database_url, LIMITS) == rows(database_url, QUEUES) == []

    made = tidegate_command("apply", "-f", str(file), database_url=database_url)
    assert (made.code, made.lines) == (0, [line.removesuffix(" (dry run)") for line in tried.lines])
    assert made.lines[0] == "limit vendor-x: created, max_running 4, max_starts 100, window 1m"
    (limit,), (queue,) = rows(database_url, LIMITS), rows(database_url, QUEUES)
    assert (limit["max_running"], limit["max_starts"], limit["rate_window"]) == (4, 100, timedelta(minutes=1))
    assert (queue["declared_order"], queue["suspended"], queue["default_max_attempts"]) == ("fair", False, 3)
    assert (queue["default_timeout"], queue["keep_succeeded"]) == (timedelta(minutes=10), timedelta(0))

    assert tidegate_command("apply", "-f", str(file), database_url=database_url).lines == [
        "limit vendor-x: unchanged",
        "queue mail: unchanged",
    ]

    file.write_text(MANIFEST.replace("maxRunning: 4", "maxRunning: 6").replace("Fair", "Priority"))
    changed = tidegate_command("apply", "-f", str(file), database_url=database_url)
    assert changed.lines == ["limit vendor-x: max_running 4 -> 6", "queue mail: order fair -> priority"]

    file.write_text(MANIFEST.replace("  rate: {maxStarts: 100, window: 1m}\n", "").replace("4", "6"))
    left_out = tidegate_command("apply", "-f", str(file), "-o", "json", database_url=database_url)
    assert left_out.json[0] == {
        "kind": "limit",
        "name": "vendor-x",
        "action": "changed",
        "changes": {"max_starts": {"before": 100, "after": None}, "window": {"before": "1m", "after": None}},
    }
    assert rows(database_url, LIMITS)[0]["max_starts"] is None


def test_nothing_is_written_when_one_document_is_wrong(database_url: str, tmp_path: Path) -> None:
    file = tmp_path / "limits.yaml"
    file.write_text(MANIFEST + "---\n" + MANIFEST.replace("vendor-x", "vendor-y").replace("maxRunning", "maxRuning"))
    refused = tidegate_command("apply", "-f", str(file), database_url=database_url)
    assert refused.code == 2
    assert refused.out == ""
    assert refused.err.splitlines() == [
        f"error: {file}:21: spec.maxRuning is no known field; did you mean maxRunning?",
        f"error: {file}:24: Queue 'mail' stands already at {file}:8",
    ]
    assert rows(database_url, LIMITS) == rows(database_url, QUEUES) == []


def test_a_row_of_a_kubernetes_object_is_left_alone_unless_forced(database_url: str) -> None:
    assert tidegate_command("apply", "-f", "-", stdin=MANIFEST, database_url=database_url).code == 0
    with psycopg.connect(database_url) as connection:
        connection.execute("update tidegate.keys set owner = %s::jsonb", (OWNER,))
        connection.execute("update tidegate.queues set owner = %s::jsonb", (OWNER,))
    unchanged = tidegate_command("apply", "-f", "-", stdin=MANIFEST, database_url=database_url)
    assert (unchanged.code, unchanged.lines) == (0, ["limit vendor-x: unchanged", "queue mail: unchanged"])

    changed = MANIFEST
    for kind, change in (("limits", ("4", "5")), ("queues", ("Fair", "Priority"))):
        changed = changed.replace(*change)
        before = rows(database_url, LIMITS), rows(database_url, QUEUES)
        refused = tidegate_command("apply", "-f", "-", stdin=changed, database_url=database_url)
        assert refused.code == 6
        assert f"kubectl edit {kind}.tidegate.dev vendor --namespace team-a" in refused.err
        assert (rows(database_url, LIMITS), rows(database_url, QUEUES)) == before
        assert tidegate_command("apply", "-f", "-", "--force", stdin=changed, database_url=database_url).code == 0
        assert (rows(database_url, LIMITS), rows(database_url, QUEUES)) != before
        assert rows(database_url, LIMITS)[0]["owner"] == json.loads(OWNER)


def test_a_hold_by_hand_is_not_undone_by_apply(database_url: str) -> None:
    assert tidegate_command("apply", "-f", "-", stdin=MANIFEST, database_url=database_url).code == 0
    assert tidegate_command("queues", "suspend", "mail", database_url=database_url).code == 0
    changed = MANIFEST.replace("Fair", "Priority")
    assert tidegate_command("apply", "-f", "-", stdin=changed, database_url=database_url).code == 0
    (queue,) = rows(database_url, QUEUES)
    assert (queue["held_by_hand"], queue["suspended"], queue["declared_order"]) == (True, False, "priority")


def document(kind: str, number: int, case: ObjectCase) -> str:
    """One object on its lines, with a name of its own unless the case is about the name."""
    named = case.name if len(case.name) > 100 else f"{kind.lower()}-{number}"
    spec = case.spec
    if isinstance(spec, dict) and case.row.get("key", case.row.get("name")) and len(case.name) <= 100:
        spec = {**spec, "key" if kind == "Limit" else "name": f"{kind} {number}"}
    written = {"apiVersion": "tidegate.dev/v1alpha1", "kind": kind, "metadata": {"name": named}, "spec": spec}
    return json.dumps(written, indent=1) + "\n"


OBJECTS = [("Limit", case) for case in LIMIT_OBJECTS] + [("Queue", case) for case in QUEUE_OBJECTS]


def test_every_good_object_of_the_table_is_written_as_it_says(database_url: str, tmp_path: Path) -> None:
    good = [(kind, number, case) for number, (kind, case) in enumerate(OBJECTS) if not case.refused]
    (tmp_path / "good.yaml").write_text("---\n".join(document(*each) for each in good))
    applied = tidegate_command("apply", "-f", str(tmp_path), "-o", "json", database_url=database_url)
    assert applied.code == 0, applied.err
    assert [change["action"] for change in applied.json] == ["created"] * len(good)
    stored = {("limit", row["key"]): row for row in rows(database_url, LIMITS)}
    stored |= {("queue", row["name"]): row for row in rows(database_url, QUEUES)}
    columns = {"window": "rate_window", "order": "declared_order"}
    for change, (kind, _, case) in zip(applied.json, good, strict=True):
        row = stored[change["kind"], change["name"]]
        for field, expected in case.row.items():
            if field in {"key", "name"}:
                continue
            value = row[columns.get(field, field)]
            unit = timedelta(milliseconds=1) if kind == "Limit" else timedelta(seconds=1)
            assert (value / unit if isinstance(value, timedelta) else value) == expected, (case.label, field)
    again = tidegate_command("apply", "-f", str(tmp_path), "-o", "json", database_url=database_url)
    assert {change["action"] for change in again.json} == {"unchanged"}


def test_every_bad_object_of_the_table_is_refused_at_its_line(database_url: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    documents = [document(kind, number, case) for number, (kind, case) in enumerate(OBJECTS) if case.refused]
    refused_paths = [sorted(case.refused) for _, case in OBJECTS if case.refused]
    file.write_text("---\n".join(documents))
    refused = tidegate_command("apply", "-f", str(file), database_url=database_url)
    assert refused.code == 2
    found: list[list[str]] = [[] for _ in documents]
    first_lines = [sum(text.count("\n") + 1 for text in documents[:number]) + 1 for number in range(len(documents))]
    for line in refused.err.splitlines():
        _, _, place, message = line.split(":", 3)
        number = max(index for index, first in enumerate(first_lines) if first <= int(place))
        found[number].append(message.split()[0])
    assert [sorted(paths) for paths in found] == refused_paths
    assert rows(database_url, LIMITS) == rows(database_url, QUEUES) == []
