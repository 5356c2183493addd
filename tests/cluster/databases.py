"""A Postgres that pods reach: it runs beside the tests, on this machine's address as the cluster sees it."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
from psycopg.sql import SQL, Identifier

from tests.conftest import make_schema, quick_folder
from tidegate.store.embedded import EmbeddedServer

ANYONE_WITH_THE_PASSWORD = "host all all 0.0.0.0/0 scram-sha-256\n"


class ClusterPostgres:
    """One server, on one port, that can be stopped and started again with what it holds."""

    def __init__(self, folder: Path) -> None:
        self._machine = os.environ["TIDEGATE_TEST_MACHINE"]
        self._access = folder / "access.conf"
        self._folder = folder / "server"
        self._access.write_text(ANYONE_WITH_THE_PASSWORD)
        self._server: EmbeddedServer | None = None
        self.port: int | None = None
        self.start()

    @property
    def url(self) -> str:
        """URL of the database, for pods and for this process."""
        assert self._server is not None
        parts = urlsplit(self._server.url)
        return parts._replace(netloc=parts.netloc.replace("127.0.0.1", self._machine)).geturl()

    def start(self) -> None:
        """Start it, on the port that it had before."""
        options = {
            "listen_addresses": ",".join(sorted({"127.0.0.1", self._machine})),
            "hba_file": str(self._access),
            "max_connections": "200",
        }
        self._server = EmbeddedServer(self._folder, port=self.port, options=options)
        self._server.start()
        self.port = urlsplit(self._server.url).port

    def new_database(self) -> str:
        """Make a database with today's schema and return its URL; it goes with the server."""
        name = f"tidegate_test_{uuid4().hex}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(SQL("create database {}").format(Identifier(name)))
        url = f"{self.url.rpartition('/')[0]}/{name}"
        asyncio.run(make_schema(url))
        return url

    def stop(self) -> None:
        """Stop it; everybody connected is cut off."""
        if self._server is not None:
            self._server.stop()


@contextmanager
def cluster_postgres(parent: Path | None) -> Iterator[ClusterPostgres]:
    """A server in a folder of its own, gone with the block."""
    with TemporaryDirectory(prefix="tidegate-", dir=parent, ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        server = ClusterPostgres(Path(folder))
        try:
            yield server
        finally:
            server.stop()


def main(command: list[str]) -> int:
    """Run a server for whoever tries things out in the cluster: while a command runs, else until Ctrl-C or SIGTERM.

    Its data go with it. The command finds its URL in ``TIDEGATE_DATABASE_URL``; without one it is printed.
    """
    with cluster_postgres(quick_folder()) as server:
        url = server.new_database()
        if command:
            variables = {**os.environ, "TIDEGATE_DATABASE_URL": url}
            return subprocess.run(command, env=variables, check=False).returncode
        print(f"export TIDEGATE_DATABASE_URL={url}", flush=True)
        with suppress(KeyboardInterrupt):
            signal.pause()
        return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
