from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg.sql import SQL, Identifier, Literal

from tests.commands import tidegate_command


def test_migrate_and_status(empty_database_url: str) -> None:
    missing = tidegate_command("schema", "status", "-o", "json", database_url=empty_database_url)
    assert missing.code == 5
    assert (missing.json["version"], missing.json["current"]) == (None, False)

    made = tidegate_command("schema", "migrate", database_url=empty_database_url)
    assert made.code == 0
    assert made.lines[0].startswith("applied 0001_")
    assert made.lines[-1] == f"schema: version {missing.json['latest']}"

    again = tidegate_command("schema", "migrate", database_url=empty_database_url)
    assert again.out == f"schema: version {missing.json['latest']}, nothing to do\n"
    assert tidegate_command("schema", "status", database_url=empty_database_url).code == 0


@pytest.mark.parametrize(
    "command", [["limits", "list"], ["queues", "resume", "x"], ["jobs", "show", "1"]], ids=" ".join
)
def test_a_missing_schema_says_what_to_type(command: list[str], empty_database_url: str) -> None:
    refused = tidegate_command(*command, database_url=empty_database_url)
    assert refused.code == 5
    assert refused.err.startswith("error: ")
    assert "tidegate schema migrate" in refused.err


def test_a_schema_of_a_newer_release(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("insert into tidegate.schema_migrations(version, name) values (9999, '9999_expand_later')")
    assert tidegate_command("schema", "status", database_url=database_url).code == 5
    refused = tidegate_command("schema", "migrate", database_url=database_url)
    assert refused.code == 5
    assert "9999" in refused.err
    # reading and deciding go on: a newer schema serves older releases while both run
    assert tidegate_command("limits", "set", "k", "--max-running", "1", database_url=database_url).code == 0


def test_a_role_without_rights_is_told_so_without_its_password(database_url: str) -> None:
    role, password = f"guest_{urlsplit(database_url).path[-12:]}", "canary-4711"
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(SQL("create role {} login password {}").format(Identifier(role), Literal(password)))
    try:
        parts = urlsplit(database_url)
        host = parts.netloc.rpartition("@")[2]
        guest = urlunsplit(parts._replace(netloc=f"{role}:{password}@{host}"))
        for command in (["limits", "list"], ["schema", "migrate"], ["apply", "-f", "-"]):
            refused = tidegate_command(*command, database_url=guest, stdin="")
            assert refused.code in {1, 2}, refused
            assert refused.err.startswith("error: ")
            assert password not in refused.out + refused.err
    finally:
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(SQL("drop owned by {}").format(Identifier(role)))
            connection.execute(SQL("drop role {}").format(Identifier(role)))


def test_settings_come_from_flags_before_variables(database_url: str) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    by_flag = tidegate_command("limits", "list", "--database-url", database_url, "-o", "json", database_url=nowhere)
    assert (by_flag.code, by_flag.json) == (0, [])
    by_variable = tidegate_command("limits", "list", database_url=database_url, variables={"TIDEGATE_OUTPUT": "json"})
    assert (by_variable.code, by_variable.json) == (0, [])
