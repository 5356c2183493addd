import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.commands import running_command, stop, tidegate_command
from tests.postgres.health_answers import get_at_once

APP = """
import asyncio
import logging

from tidegate import App

app = App()
number = 7


@app.actor(channel="mail")
async def send(to: str) -> None:
    logging.getLogger("app").warning("sending")
    if to == "nobody":
        raise ValueError("no such address")


@app.actor(channel="video")
async def transcode(seconds: float) -> None:
    await asyncio.sleep(seconds)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "needy.py").write_text("import nothing_like_it\n")
    (tmp_path / "torn.py").write_text("def f(:\n")
    (tmp_path / "leaving.py").write_text("raise SystemExit('no configuration')\n")
    (tmp_path / "elsewhere.py").write_text("from tidegate import App\napp = App('postgresql://u:canary@other/x')\n")
    return tmp_path


@pytest.fixture
def enqueue(database_url: str) -> Iterator[Callable[[str, str, str], int]]:
    with psycopg.connect(database_url, autocommit=True) as connection:

        def call(queue: str, actor: str, payload: str) -> int:
            row = connection.execute("select id from tidegate.enqueue(%s, %s, %s::jsonb)", (queue, actor, payload))
            return int(row.fetchall()[0][0])

        yield call


def wait_for(database_url: str, job: int, state: str, process: "subprocess.Popen[str]") -> None:
    """Ask until the job is in a state; the asking is the wait."""
    until = time.monotonic() + 30
    with psycopg.connect(database_url, autocommit=True) as connection:
        while True:
            row = connection.execute("select state from tidegate.job_status where id = %s", (job,)).fetchone()
            if row is not None and row[0] == state:
                return
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < until, f"job {job} is {row}, not {state}"


def test_jobs_run_until_sigterm(folder: Path, database_url: str, enqueue: Callable[[str, str, str], int]) -> None:
    sent, failed, other = (
        enqueue("mail", "send", '{"to": "a@example.org"}'),
        enqueue("mail", "send", '{"to": "nobody"}'),
        enqueue("video", "transcode", '{"seconds": 0}'),
    )
    arguments = ("worker", "app:app", "--queue", "mail", "--name", "one", "--log-format", "json", "--slots", "2")
    with running_command(*arguments, database_url=database_url, folder=folder) as process:
        wait_for(database_url, sent, "succeeded", process)
        wait_for(database_url, failed, "scheduled", process)
        with psycopg.connect(database_url) as connection:
            assert connection.execute("select name, queues, slots, fair from tidegate.workers").fetchall() == [
                ("one", ["mail"], 2, None)
            ]
        ended = stop(process)
    assert ended.code == 0, ended.err
    assert ended.out == ""
    records = [json.loads(line) for line in ended.err.splitlines()]
    assert {"app", "tidegate.worker"} <= {record["logger"] for record in records}
    assert "example.org" not in ended.err
    assert {"exit_code": 0, "claimed": 2, "succeeded": 1, "failed": 1, "given_back": 0}.items() <= records[-1].items()
    shown = tidegate_command("jobs", "show", str(failed), "-o", "json", database_url=database_url).json
    assert "no such address" in shown["error"]
    assert (
        tidegate_command("jobs", "show", str(other), "-o", "json", database_url=database_url).json["state"] == "ready"
    )


def test_health_is_answered_where_the_flag_says(
    folder: Path, database_url: str, enqueue: Callable[[str, str, str], int]
) -> None:
    job = enqueue("mail", "send", '{"to": "a@example.org"}')
    health = ("--health-address", "127.0.0.1:0", "--log-format", "json")
    capacity = ("--max-payload-bytes", "1000000", "--actor-limits-propagation", "off")
    with running_command("worker", "app:app", *health, *capacity, database_url=database_url, folder=folder) as process:
        assert process.stderr is not None
        record: dict[str, object] = {}
        while record.get("message") != "health is served":
            record = json.loads(process.stderr.readline())
        port = int(str(record["address"]).rpartition(":")[2])
        wait_for(database_url, job, "succeeded", process)
        assert get_at_once(port, "/healthz")[0] == 200
        assert get_at_once(port, "/readyz")[0] == 200
        assert 'tidegate_worker_pool_max_bytes{pool="the worker"} 1e+06' in get_at_once(port, "/metrics")[1]
        ended = stop(process)
    assert ended.code == 0, ended.err


def test_ctrl_c_gives_back_what_does_not_end_in_time(
    folder: Path, database_url: str, enqueue: Callable[[str, str, str], int]
) -> None:
    job = enqueue("video", "transcode", '{"seconds": 3600}')
    arguments = ("worker", "app:app", "--grace", "0s", "--no-fair")
    with running_command(*arguments, database_url=database_url, folder=folder) as process:
        wait_for(database_url, job, "running", process)
        ended = stop(process, signal.SIGINT)
    assert ended.code == 75, ended.err
    shown = tidegate_command("jobs", "show", str(job), "-o", "json", database_url=database_url).json
    assert (shown["state"], shown["attempt"]) == ("ready", 0)


@pytest.mark.parametrize(
    ("app", "words"),
    [
        ("app", "MODULE:ATTRIBUTE, got 'app'; try app:app"),
        ("./app.py", "MODULE:ATTRIBUTE, got './app.py'; try app:app"),
        ("app.py:app", "names a module, not a file, got 'app.py:app'; try app:app"),
        ("app:worker", "module 'app' has no 'worker'; its apps are: app:app"),
        ("app:number", "app:number is of type int, not a tidegate.App; its apps are: app:app"),
        ("missing:app", "no module 'missing' in"),
        ("needy:app", "importing 'needy' failed: ModuleNotFoundError: No module named 'nothing_like_it'"),
        ("torn:app", "importing 'torn' failed: SyntaxError: invalid syntax"),
        ("leaving:app", "importing 'leaving' failed: SystemExit: no configuration"),
    ],
)
def test_an_app_that_cannot_be_loaded_is_explained(app: str, words: str, folder: Path) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    refused = tidegate_command("worker", app, folder=folder, database_url=nowhere)
    assert refused.code == 2
    assert refused.err.startswith("error: ")
    assert words in refused.err


def test_settings_that_contradict_each_other_are_refused(folder: Path) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    for arguments, words in (
        (["--slots", "0"], "slots must be an integer from 1 to"),
        (["--lease", "1s", "--heartbeat", "2s"], "heartbeat must be shorter than"),
        (["--queue", " mail"], "must not begin or end with a blank"),
        (["--max-payload-bytes", "0"], "max_payload_bytes must be a positive integer"),
        (["--health-address", "8080"], "health_address must be HOST:PORT, such as 127.0.0.1:8080"),
        (["--health-address", "localhost:99999"], "health_address must be HOST:PORT"),
    ):
        refused = tidegate_command("worker", "app:app", *arguments, folder=folder, database_url=nowhere)
        assert (refused.code, words in refused.err) == (2, True), refused


def test_an_app_with_a_database_of_its_own_is_not_taken_elsewhere(folder: Path) -> None:
    refused = tidegate_command("worker", "elsewhere:app", "--database-url", "postgresql://here/x", folder=folder)
    assert refused.code == 2
    assert "names another database than --database-url" in refused.err
    assert "canary" not in refused.err


def test_a_url_in_the_app_that_cannot_be_read_is_one_line_without_a_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "from tidegate import App\n"
        "app = App('postgresql://u:pwSEC/RET@127.0.0.1/x')\n"
        "@app.actor(channel='a')\n"
        "async def actor() -> None: ...\n"
    )
    refused = tidegate_command("worker", "app:app", folder=tmp_path)
    assert refused.code == 2
    assert refused.err.startswith("error: the database URL cannot be read")
    assert "SEC" not in refused.err
    assert "RET" not in refused.err
