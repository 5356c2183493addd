import os
import signal
import socket
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path

import psycopg
import pytest

from tests.commands import running_command, stop, tidegate_command
from tidegate.cli.dev_commands import LOOK_EVERY


def read_until(process: "subprocess.Popen[str]", last: str) -> list[str]:
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or lines[-1] != last:
        lines.append(process.stdout.readline())
        assert lines[-1], process.communicate()
    return lines


def test_dev_starts_migrates_tells_and_stops(server_folder: Path) -> None:
    server_folder.chmod(0o755)
    urls: list[str] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        with running_command("dev", "--port", "0", folder=server_folder) as process:
            said = read_until(process, "Ctrl-C stops it.\n")
            assert said[0].startswith("ready, schema version ")
            url = said[0].split()[-1]
            assert f"  export TIDEGATE_DATABASE_URL='{url}'\n" in said
            urls.append(url)
            with psycopg.connect(url, autocommit=True) as connection:
                # what the first start was told is there at the second
                known = connection.execute("select count(*) from tidegate.limits").fetchall()
                assert known == [(len(urls) - 1,)]
            assert tidegate_command("limits", "set", "k", "--max-running", "1", database_url=url).code == 0
            second = tidegate_command("dev", "--port", "0", folder=server_folder)
            assert second.code == 6
            assert f"process {process.pid} runs a server in" in second.err
            ended = stop(process, number)
        assert ended.code == 0, ended.err
        place = server_folder / ".tidegate" / "postgres"
        assert ended.err.startswith(f"starting Postgres, its data in {place}\n")
        assert ended.err.endswith(f"stopped; the data stay in {place}\n")
        away = tidegate_command("limits", "list", database_url=url)
        assert away.code == 3
    assert (server_folder / ".tidegate" / ".gitignore").read_text() == "*\n"


def test_dev_says_when_its_port_is_taken(server_folder: Path) -> None:
    server_folder.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = tidegate_command("dev", "--port", port, "--folder", "data", folder=server_folder)
    assert refused.code == 6
    assert f"port {port} of 127.0.0.1 is taken" in refused.err


def test_dev_ends_when_its_server_does(server_folder: Path) -> None:
    server_folder.chmod(0o755)
    with running_command("dev", "--port", "0", folder=server_folder) as process:
        read_until(process, "Ctrl-C stops it.\n")
        pid_file = server_folder / ".tidegate" / "postgres" / "data" / "postmaster.pid"
        os.kill(int(pid_file.read_text().splitlines()[0]), signal.SIGQUIT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "error: Postgres ended by itself" in err


def test_dev_keeps_a_server_whose_connections_are_all_taken_or_ended(server_folder: Path) -> None:
    server_folder.chmod(0o755)
    with running_command("dev", "--port", "0", folder=server_folder) as process, ExitStack() as held:
        url = read_until(process, "Ctrl-C stops it.\n")[0].split()[-1]
        taken = held.enter_context(psycopg.connect(url, autocommit=True))
        taken.execute("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()")
        with suppress(psycopg.OperationalError):
            for _ in range(200):
                held.enter_context(psycopg.connect(url))
        with pytest.raises(psycopg.OperationalError, match=r"too many clients|reserved"):
            psycopg.connect(url)
        # it looks again and again, and this is longer than its look, a connection that is refused included
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=3 * LOOK_EVERY)
        assert taken.execute("select 1").fetchone() == (1,)
        assert stop(process, signal.SIGTERM).code == 0
