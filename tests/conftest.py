"""Real PostgreSQL servers for the tests, and a database of its own for each test.

A test that asks for `database_url`, `engine`, `connect` or `connection` runs once on every server at hand: ``pg18`` is
the embedded one, ``pg15`` Debian's where it is installed. ``--pg 18`` and ``--pg 15`` choose one; ``TIDEGATE_TEST_URL``
names a server that runs already and takes their place. The schema is made once a server, in a template database, and
each test gets a clone of it, dropped when the test is over.

Servers start when the first test needs them. With pytest-xdist each process has its own.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from shutil import disk_usage
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import hypothesis
import psycopg
import pytest
from psycopg.sql import SQL, Composed, Identifier

from tidegate.store.embedded import temporary_server
from tidegate.store.engine import Engine
from tidegate.store.migrating import migrate

INSTALLED_15 = Path("/usr/lib/postgresql/15/bin")

MEMORY = Path("/dev/shm")  # noqa: S108 - the servers' folders in it are made by tempfile
MEMORY_NEEDED = 4 << 30
"""Bytes that must be free in `MEMORY` to hold the servers there: a database is cloned 20 times faster than on disk."""

SERVER_OPTIONS = {"full_page_writes": "off", "max_connections": "200"}
"""Beside ``fsync=off``. Nothing here changes what a transaction sees or which lock it takes."""

# two cores, real servers: how long an example took says nothing about it
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")


class Server:
    """A running server, by the URL of a superuser on its database ``postgres``."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._template: str | None = None

    @property
    def template(self) -> str:
        """Name of a database with today's schema, which nobody connects to."""
        if self._template is None:
            name = f"tidegate_template_{uuid4().hex}"
            self._administer(SQL("create database {} template template0").format(Identifier(name)))
            try:
                asyncio.run(make_schema(self._url_of(name)))
            except BaseException:
                self._drop(name)
                raise
            self._template = name
        return self._template

    def close(self) -> None:
        if self._template is not None:
            self._drop(self._template)

    @contextmanager
    def database(self, template: str) -> Iterator[str]:
        """Make a database from a template and yield its URL; drop it afterwards, whoever is still connected."""
        name = f"tidegate_test_{uuid4().hex}"
        self._administer(
            SQL("create database {} template {} strategy file_copy").format(Identifier(name), Identifier(template))
        )
        try:
            yield self._url_of(name)
        finally:
            self._drop(name)

    def _url_of(self, database: str) -> str:
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{database}"))

    def _drop(self, database: str) -> None:
        self._administer(SQL("drop database {} with (force)").format(Identifier(database)))

    def _administer(self, statement: Composed) -> None:
        with closing(psycopg.connect(self.url, autocommit=True)) as connection:
            connection.execute(statement)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pg", choices=["18", "15", "all"], default="all", help="servers to run the Postgres tests on")


def server_ids(config: pytest.Config) -> list[str]:
    if os.environ.get("TIDEGATE_TEST_URL"):
        return ["external"]
    wanted = config.getoption("--pg")
    if wanted == "15" and not INSTALLED_15.exists():
        raise pytest.UsageError(f"--pg 15 needs PostgreSQL 15 in {INSTALLED_15} (Debian: postgresql-15)")
    found = {"18": True, "15": INSTALLED_15.exists()}
    return [f"pg{version}" for version, there in found.items() if there and wanted in {version, "all"}]


def pytest_report_header(config: pytest.Config) -> str:
    return f"postgres servers: {', '.join(server_ids(config))}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server" in metafunc.fixturenames:
        metafunc.parametrize("server", server_ids(metafunc.config), indirect=True)


@contextmanager
def running_server(server_id: str) -> Iterator[Server]:
    with ExitStack() as stack:
        if server_id == "external":
            url = os.environ["TIDEGATE_TEST_URL"]
        else:
            binaries = INSTALLED_15 if server_id == "pg15" else None
            parent = quick_folder()
            url = stack.enter_context(temporary_server(options=SERVER_OPTIONS, binaries=binaries, parent=parent)).url
        yield stack.enter_context(closing(Server(url)))


def quick_folder() -> Path | None:
    return MEMORY if MEMORY.exists() and disk_usage(MEMORY).free > MEMORY_NEEDED else None


async def make_schema(database_url: str) -> None:
    engine = Engine(database_url)
    try:
        await migrate(engine)
    finally:
        await engine.close()


@pytest.fixture(scope="session")
def servers() -> Iterator[Callable[[str], Server]]:
    """Servers by id, each started at most once; all stopped at the end of the session."""
    started: dict[str, Server] = {}
    with ExitStack() as stack:

        def get(server_id: str) -> Server:
            if server_id not in started:
                started[server_id] = stack.enter_context(running_server(server_id))
            return started[server_id]

        yield get


@pytest.fixture
def server(request: pytest.FixtureRequest, servers: Callable[[str], Server]) -> Server:
    """The server that this run of the test is for."""
    return servers(request.param)


@pytest.fixture
def database_url(server: Server) -> Iterator[str]:
    """URL of a database with today's schema, for this test alone."""
    with server.database(server.template) as url:
        yield url


@pytest.fixture
def empty_database_url(server: Server) -> Iterator[str]:
    """URL of a database without a schema, for this test alone."""
    with server.database("template0") as url:
        yield url


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[Engine]:
    """An engine on the test's database."""
    engine = Engine(database_url, application_name="tidegate tests")
    await engine.open()
    yield engine
    await engine.close()


Connect = Callable[..., Awaitable[asyncpg.Connection]]


@pytest.fixture
async def connect(database_url: str) -> AsyncIterator[Connect]:
    """Open a plain connection to the test's database, as often as called; keywords are those of `asyncpg.connect`."""
    opened: list[asyncpg.Connection] = []

    async def open_one(**options: Any) -> asyncpg.Connection:
        connection: asyncpg.Connection = await asyncpg.connect(database_url, **options)
        opened.append(connection)
        return connection

    yield open_one
    # not close(): that waits for a statement which a test may have left waiting for a lock
    for connection in opened:
        connection.terminate()


@pytest.fixture
async def connection(connect: Connect) -> asyncpg.Connection:
    """One plain connection to the test's database, in autocommit."""
    return await connect()


@pytest.fixture
def server_folder() -> Iterator[Path]:
    """A folder for a server that a test starts; `tmp_path` is closed to the account that root's servers run as."""
    with TemporaryDirectory(prefix="tidegate-", dir=quick_folder(), ignore_cleanup_errors=True) as folder:
        yield Path(folder)
