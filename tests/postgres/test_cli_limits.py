import re
from typing import Any

import psycopg
import pytest

from tests.commands import limit_flags, tidegate_command
from tests.examples_table import FULL, LIMIT_CHANGES, NAMES, LimitCase

OWNER = '{"cluster": "c1", "namespace": "mail", "name": "vendor", "uid": "u"}'


def policy(database_url: str, key: str) -> tuple[Any, ...] | None:
    with psycopg.connect(database_url) as connection:
        return connection.execute(
            "select max_running, max_starts, extract(epoch from rate_window)::int, weight from tidegate.limits"
            " where key = %s",
            (key,),
        ).fetchone()


def test_set_list_and_clear(database_url: str) -> None:
    made = tidegate_command(
        "limits",
        "set",
        "vendor-x",
        *limit_flags({"max_running": 4, "max_starts": 100, "window": 60_000}),
        database_url=database_url,
    )
    assert made.code == 0
    assert made.lines[:4] == ["key          vendor-x", "max_running  4", "max_starts   100", "window       1m"]
    assert policy(database_url, "vendor-x") == (4, 100, 60, None)

    kept = tidegate_command("limits", "set", "vendor-x", "--weight", "2", "-o", "json", database_url=database_url)
    assert kept.json == {"key": "vendor-x", "max_running": 4, "max_starts": 100, "window": "1m", "weight": 2}

    removed = tidegate_command("limits", "set", "vendor-x", "--max-starts", "none", database_url=database_url)
    assert removed.code == 0
    assert policy(database_url, "vendor-x") == (4, None, None, 2)

    table = tidegate_command("limits", "list", database_url=database_url)
    assert table.lines[0].split()[:3] == ["KEY", "RUNNING", "MAX"]
    assert table.lines[1].split() == ["vendor-x", "0", "4", "0", "0", "-", "-", "2", "now", "-"]
    (row,) = tidegate_command("limits", "list", "--output", "json", database_url=database_url).json
    assert {"key": "vendor-x", "max_running": 4, "running": 0, "waiting": 0, "owner": None}.items() <= row.items()

    assert tidegate_command("limits", "clear", "vendor-x", database_url=database_url).out == "limit vendor-x: cleared\n"
    assert policy(database_url, "vendor-x") is None
    again = tidegate_command("limits", "clear", "vendor-x", database_url=database_url)
    assert (again.code, again.out) == (0, "limit vendor-x: had no policy\n")


REFUSED_BY_THE_STORED_POLICY = [case for case in LIMIT_CHANGES if case.numeric and case.refused and case.before]


@pytest.mark.parametrize("case", REFUSED_BY_THE_STORED_POLICY[:4], ids=lambda case: case.label)
def test_a_refused_change_names_its_part_and_writes_nothing(case: LimitCase, database_url: str) -> None:
    assert tidegate_command("limits", "set", "k", *limit_flags(case.before), database_url=database_url).code == 0
    before = policy(database_url, "k")
    refused = tidegate_command("limits", "set", "k", *limit_flags(case.change), database_url=database_url)
    assert refused.code == 2
    assert refused.err.startswith("error: ")
    assert refused.err.startswith(f"error: --{str(case.refused).replace('_', '-')} ")
    assert not re.search("_|None|(?<!--)window", refused.err)
    assert refused.out == ""
    assert policy(database_url, "k") == before


def test_good_keys_of_the_table_survive_the_way_through(database_url: str) -> None:
    keys = [text.value for text in NAMES if text.good and text.fits_a_connection]
    for key in keys[::5]:
        assert tidegate_command("limits", "set", "--weight", "1", "--", key, database_url=database_url).code == 0
    listed = tidegate_command("limits", "list", "-o", "json", database_url=database_url).json
    assert {row["key"] for row in listed} == set(keys[::5])


def test_a_key_of_a_kubernetes_object_is_left_alone_unless_forced(database_url: str) -> None:
    assert tidegate_command("limits", "set", "k", *limit_flags(FULL), database_url=database_url).code == 0
    with psycopg.connect(database_url) as connection:
        connection.execute("update tidegate.keys set owner = %s::jsonb where key = 'k'", (OWNER,))
    for command in (("limits", "set", "k", "--max-running", "9"), ("limits", "clear", "k")):
        refused = tidegate_command(*command, database_url=database_url)
        assert refused.code == 6
        assert "mail/vendor" in refused.err
        assert "kubectl edit limits.tidegate.dev vendor --namespace mail" in refused.err
        assert policy(database_url, "k") == (4, 100, 60, 2)
    table = tidegate_command("limits", "list", database_url=database_url)
    assert "mail/vendor" in table.lines[1]
    forced = tidegate_command("limits", "set", "k", "--max-running", "9", "--force", database_url=database_url)
    assert forced.code == 0
    assert policy(database_url, "k") == (9, 100, 60, 2)
    assert tidegate_command("limits", "clear", "k", "--force", database_url=database_url).code == 0
    assert policy(database_url, "k") is None
