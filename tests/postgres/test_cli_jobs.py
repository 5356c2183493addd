import json

import psycopg
import pytest
from ruamel.yaml import YAML

from tests.commands import tidegate_command

ENQUEUE = "select id from tidegate.enqueue(%s, %s, %s::jsonb, limit_key => %s, delay => %s::interval)"


@pytest.fixture
def jobs(database_url: str) -> list[int]:
    """Two ready jobs, one of them keyed, and one for later."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        return [
            connection.execute(ENQUEUE, row).fetchall()[0][0]
            for row in (
                ("mail", "send", '{"to": "a@example.org"}', "", None),
                ("video", "transcode", '{"id": "\\u001b[31m"}', "vendor-x", None),
                ("mail", "send", "{}", "", "1 hour"),
            )
        ]


def listed(database_url: str, *filters: str) -> list[int]:
    result = tidegate_command("jobs", "list", *filters, "--output", "json", database_url=database_url)
    assert result.code == 0, result.err
    return [row["id"] for row in result.json]


def test_list_and_its_filters(database_url: str, jobs: list[int]) -> None:
    mail, video, later = jobs
    assert listed(database_url) == [later, video, mail]
    assert listed(database_url, "--limit", "2") == [later, video]
    assert listed(database_url, "--queue", "mail") == [later, mail]
    assert listed(database_url, "--actor", "transcode") == [video]
    assert listed(database_url, "--limit-key", "vendor-x") == [video]
    assert listed(database_url, "--state", "scheduled") == [later]
    assert listed(database_url, "--state", "scheduled", "--state", "ready", "--queue", "mail") == [later, mail]
    assert listed(database_url, "--queue", "none") == []
    table = tidegate_command("jobs", "list", "--state", "ready", database_url=database_url)
    assert table.lines[0].split()[:4] == ["ID", "STATE", "QUEUE", "ACTOR"]
    assert table.lines[1].split()[:6] == [str(video), "ready", "video", "transcode", "vendor-x", "0"]


def test_show(database_url: str, jobs: list[int]) -> None:
    mail, video, _ = jobs
    shown = tidegate_command("jobs", "show", str(mail), database_url=database_url)
    assert shown.code == 0
    assert 'payload       {"to": "a@example.org"}' in shown.lines
    assert "\x1b" not in tidegate_command("jobs", "show", str(video), database_url=database_url).out
    as_json = tidegate_command("jobs", "show", str(video), "-o", "json", database_url=database_url).json
    assert as_json["payload"] == {"id": "\x1b[31m"}
    as_yaml = tidegate_command("jobs", "show", str(video), "-o", "yaml", database_url=database_url)
    assert YAML(typ="safe").load(as_yaml.out) == as_json


def test_cancel_and_retry_say_what_became_of_each(database_url: str, jobs: list[int]) -> None:
    mail, video, later = map(str, jobs)
    cancelled = tidegate_command("jobs", "cancel", mail, "999", later, database_url=database_url)
    assert cancelled.code == 4
    assert cancelled.lines == [f"job {mail}: cancelled", f"job {later}: cancelled"]
    assert "999" in cancelled.err
    assert listed(database_url, "--state", "cancelled") == [int(later), int(mail)]

    retried = tidegate_command("jobs", "retry", mail, video, database_url=database_url)
    assert retried.code == 6
    assert retried.lines == [f"job {mail}: ready"]
    assert retried.err == f"error: job {video} is ready already\n"
    assert listed(database_url, "--state", "ready") == [int(video), int(mail)]
    assert tidegate_command("jobs", "retry", "999", database_url=database_url).code == 4
    assert tidegate_command("jobs", "show", "999", database_url=database_url).code == 4


def test_tracebacks_and_errors_are_shown_but_not_obeyed(database_url: str, jobs: list[int]) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "insert into tidegate.history(id, run_at, created_at, finished_at, keep_until, bytes, priority, attempt,"
            " max_attempts, lost, state, queue, actor, group_key, limit_key, error, traceback, payload)"
            " values (1000, now(), now(), now(), now() + '1 day', 2, 0, 5, 5, 0, 'dead', 'mail', 'send', '', '',"
            " E'Oops: \\x1b[2J\\nsecond line', E'line 1\\n  line 2 \\x1b[2J', '{}')"
        )
    table = tidegate_command("jobs", "list", "--state", "dead", database_url=database_url)
    assert table.lines[1].endswith("Oops: \\x1b[2J")
    shown = tidegate_command("jobs", "show", "1000", database_url=database_url)
    assert shown.out.endswith("traceback:\n    line 1\n      line 2 \\x1b[2J\n")
    assert "\x1b" not in shown.out
    assert json.loads(tidegate_command("jobs", "show", "1000", "-o", "json", database_url=database_url).out)["error"]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("run_at", "timestamptz '20000-01-01'"),
        ("run_at", "timestamptz 'infinity'"),
        ("timeout", "interval '2000000000 days'"),
    ],
)
@pytest.mark.parametrize("command", [["list"], ["show", "1000"]], ids=["list", "show"])
def test_a_stored_value_that_cannot_be_shown_is_one_line_that_names_the_job(
    database_url: str, command: list[str], column: str, value: str
) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "insert into tidegate.history(id, run_at, created_at, finished_at, keep_until, bytes, priority, attempt,"
            " max_attempts, lost, state, queue, actor, group_key, limit_key, payload)"
            " values (1000, now(), now(), now(), now() + '1 day', 2, 0, 5, 5, 0, 'dead', 'mail', 'send', '', '', '{}')"
        )
        connection.execute(f"update tidegate.history set {column} = {value}")  # noqa: S608 - the words above
    ended = tidegate_command("jobs", *command, database_url=database_url)
    assert ended.code == 1
    assert ended.out == ""
    assert ended.err.startswith(f"error: job 1000 holds a value that cannot be shown (in {column})")
    assert len(ended.err.splitlines()) == 1


def test_queues_list_suspend_and_resume(database_url: str, jobs: list[int]) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "select tidegate.set_queue('mail', '{}'), tidegate.set_queue('without', '{\"suspended\": true}'),"
            ' tidegate.set_queue(\'video\', \'{"suspended": true, "owner": {"namespace": "team", "name": "v"}}\')'
        )
    held = tidegate_command("queues", "suspend", "mail", database_url=database_url)
    assert (held.code, held.out) == (0, "queue mail: suspended by hand; tidegate queues resume mail opens it again\n")
    tidegate_command("queues", "suspend", "video", database_url=database_url)
    table = tidegate_command("queues", "list", database_url=database_url)
    assert table.lines[1].split()[:4] == ["mail", "priority", "by", "hand"]
    assert " by object, by hand " in table.lines[2]
    listed = tidegate_command("queues", "list", "-o", "json", database_url=database_url).json
    assert {"name": "mail", "order": "priority", "held_by_hand": True, "ready": 1, "scheduled": 1}.items() <= listed[
        0
    ].items()
    resumed = tidegate_command("queues", "resume", "video", database_url=database_url)
    assert resumed.out == "queue video: no longer held by hand; its Queue object still suspends it (spec.suspend)\n"
    assert tidegate_command("queues", "resume", "mail", database_url=database_url).out.endswith("held by hand\n")
    # no object says so any more, or ever did: then it is a person's
    assert table.lines[3].split()[:4] == ["without", "priority", "by", "hand"]
    assert tidegate_command("queues", "resume", "without", database_url=database_url).out.endswith("held by hand\n")
    assert " no " in tidegate_command("queues", "list", database_url=database_url).lines[3]


def test_a_slip_in_a_queues_name_makes_no_queue(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("select tidegate.set_queue('mail', '{}')")
    for command in ("suspend", "resume"):
        missed = tidegate_command("queues", command, "mial", database_url=database_url)
        assert missed.code == 4
        assert missed.err == "error: there is no queue 'mial'; there are: mail\n"
    assert len(tidegate_command("queues", "list", "-o", "json", database_url=database_url).json) == 1


def test_a_queue_that_has_only_jobs_yet_is_listed_and_can_be_held(database_url: str, jobs: list[int]) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("select tidegate.enqueue('later', 'send', '{}', delay => '1 hour')")
    before = tidegate_command("queues", "list", "-o", "json", database_url=database_url).json
    assert [(row["name"], row["order"], row["ready"], row["runnable"], row["scheduled"]) for row in before] == [
        ("later", "priority", 0, 0, 1),
        ("mail", "priority", 1, 1, 1),
        ("video", "priority", 1, 1, 0),
    ]
    for name in ("later", "mail"):
        assert tidegate_command("queues", "suspend", name, database_url=database_url).code == 0
    after = tidegate_command("queues", "list", "-o", "json", database_url=database_url).json
    assert [(row["name"], row["held_by_hand"], row["runnable"]) for row in after] == [
        ("later", True, 0),
        ("mail", True, 0),
        ("video", False, 1),
    ]
    # a queue whose every job was taken back is no queue any more
    tidegate_command("jobs", "cancel", str(jobs[1]), database_url=database_url)
    assert len(tidegate_command("queues", "list", "-o", "json", database_url=database_url).json) == 2
