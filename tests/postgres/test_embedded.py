"""The server that Tidegate brings along: two at once, restarts, crashes of its owner, and what it refuses."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from tidegate.errors import ConfigurationError, Conflict
from tidegate.store import embedded
from tidegate.store.accounts import Account
from tidegate.store.embedded import EmbeddedServer

FAST = {"fsync": "off"}

OWNER = """
import sys
from tidegate.store.embedded import EmbeddedServer
with EmbeddedServer(sys.argv[1], options={"fsync": "off"}, disposable=len(sys.argv) > 2) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


def ask(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def process_number(folder: Path) -> int:
    return int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])


def wait_until_gone(path: Path) -> None:
    deadline = time.monotonic() + 30
    while path.exists():
        assert time.monotonic() < deadline, f"{path} outlived the server's owner"
        time.sleep(0.02)


def test_data_survive_a_restart_and_options_do_not(server_folder: Path) -> None:
    server = EmbeddedServer(server_folder, options=FAST | {"work_mem": "5MB", "cluster_name": "it's a \\ name"})
    with server:
        with psycopg.connect(server.url) as connection:
            connection.execute("create table kept as select 7 as n")
        assert ask(server.url, "show work_mem") == "5MB"
        assert ask(server.url, "show cluster_name") == "it's a \\ name"
    with pytest.raises(Conflict, match="not started"):
        _ = server.url
    with EmbeddedServer(server_folder, options=FAST) as again:
        assert ask(again.url, "select n from kept") == 7
        assert ask(again.url, "show work_mem") == "4MB"
    again.stop()


def test_two_servers_run_at_once_and_one_folder_has_one_owner(server_folder: Path) -> None:
    folder = server_folder / "first"
    server_folder.chmod(0o755)
    with (
        EmbeddedServer(folder, options=FAST) as first,
        EmbeddedServer(server_folder / "second", options=FAST) as second,
    ):
        assert ask(first.url, "show port") != ask(second.url, "show port")
        with pytest.raises(Conflict, match=r"process \d+ runs a server in"):
            EmbeddedServer(folder).start()
        assert ask(first.url, "select 1") == 1


def test_password_is_needed_and_kept_from_other_users(server_folder: Path) -> None:
    with EmbeddedServer(server_folder, options=FAST) as server:
        password = (server_folder / "password").read_text()
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            ask(server.url.replace(password, "guess"), "select 1")
    assert (server_folder / "password").stat().st_mode & 0o077 == 0
    assert server_folder.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM], ids=lambda end: end.name)
def test_server_ends_with_its_owner(server_folder: Path, end: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, server_folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        assert ask(owner.stdout.readline().strip(), "select 1") == 1
        owner.send_signal(end)
    wait_until_gone(server_folder / "data" / "postmaster.pid")
    with EmbeddedServer(server_folder, options=FAST) as server:
        assert ask(server.url, "select 1") == 1


def test_disposable_data_go_with_their_owner(server_folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, server_folder, "disposable"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        assert ask(owner.stdout.readline().strip(), "select 1") == 1
        owner.kill()
    wait_until_gone(server_folder / "data")


def test_server_that_outlived_owner_and_guard_is_replaced(server_folder: Path) -> None:
    first = EmbeddedServer(server_folder, options=FAST)
    first.start()
    left = process_number(server_folder)
    # what a machine short of memory does: owner and guard are gone, the server is not
    assert first._guard is not None
    first._guard.kill()
    first._guard.communicate()
    first._release()
    with EmbeddedServer(server_folder, options=FAST) as server:
        assert process_number(server_folder) != left
        assert ask(server.url, "select 1") == 1


def test_pid_file_of_a_crash_does_not_stand_in_the_way(server_folder: Path) -> None:
    with EmbeddedServer(server_folder, options=FAST):
        pid_file = server_folder / "data" / "postmaster.pid"
        lines = pid_file.read_text().splitlines(keepends=True)
    # the number belongs to another living program now, as it does after a container's restart
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as stranger:  # noqa: S607 - any program will do
        pid_file.write_text("".join([f"{stranger.pid}\n", *lines[1:]]))
        with EmbeddedServer(server_folder, options=FAST) as server:
            assert ask(server.url, "select 1") == 1
        assert stranger.poll() is None
        stranger.communicate()


def test_interrupted_first_start_is_repeated(server_folder: Path) -> None:
    (server_folder / "data.new").mkdir()
    (server_folder / "data.new" / "PG_VERSION").write_text("half")
    with EmbeddedServer(server_folder, options=FAST) as server:
        assert ask(server.url, "select 1") == 1
    assert not (server_folder / "data.new").exists()


def test_wanted_port_is_used_or_refused(server_folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Conflict, match=f"port {port} of 127.0.0.1 is taken"):
            EmbeddedServer(server_folder, port=port, options=FAST).start()
    with EmbeddedServer(server_folder, port=port, options=FAST) as server:
        assert ask(server.url, "show port") == str(port)


def test_taken_free_port_is_chosen_again(server_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        choices = [taken.getsockname()[1], embedded.free_port()]
        monkeypatch.setattr(embedded, "free_port", lambda: choices.pop(0))
        with EmbeddedServer(server_folder, options=FAST) as server:
            assert ask(server.url, "select 1") == 1
    assert choices == []


def test_wrong_option_says_what_postgres_said(server_folder: Path) -> None:
    with pytest.raises(ConfigurationError, match='unrecognized configuration parameter "fsink"'):
        EmbeddedServer(server_folder, options={"fsink": "off"}).start()
    with EmbeddedServer(server_folder, options=FAST) as server:
        assert ask(server.url, "select 1") == 1


def test_folder_with_other_things_is_left_alone(server_folder: Path) -> None:
    (server_folder / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigurationError, match=r"holds other things \(thesis\.txt\)"):
        EmbeddedServer(server_folder).start()
    assert [path.name for path in server_folder.iterdir()] == ["thesis.txt"]


def test_programs_out_of_reach_are_copied(server_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a virtual environment below /root, which the server's account may not enter."""
    programs = embedded.find_binaries()
    monkeypatch.setattr(Account, "barrier_to", lambda _, path: path if path.is_relative_to(programs) else None)
    with EmbeddedServer(server_folder, options=FAST) as server:
        assert ask(server.url, "select 1") == 1
        assert (server_folder / "programs").exists() == (os.geteuid() == 0)


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, server_folder: Path) -> None:
    monkeypatch.setattr(embedded, "PACKAGE", "no_such_package_of_postgres")
    with pytest.raises(ConfigurationError, match=r'pip install "tidegate\[dev-server\]"'):
        EmbeddedServer(server_folder).start()
