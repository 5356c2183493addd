"""Where benchmarks run: a server of their own, or a given one; a database for each, dropped afterwards."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg

from tidegate.store.embedded import temporary_server
from tidegate.store.engine import Engine
from tidegate.store.migrating import migrate

QUEUE = "bench"
ACTOR = "noop"

STRICT_SETTINGS = {
    "application_name": "tidegate bench",
    "jit": "off",
    # as the claim's functions do: a plan made anew for each call costs more than the bare claim's work
    "plan_cache_mode": "force_generic_plan",
}
"""Settings of the sessions in which both sides are measured."""


@contextmanager
def server(url: str | None) -> Iterator[str]:
    """Yield the URL of a server: the given one, or an embedded one with its data on disk and ``fsync`` on."""
    if url is not None:
        yield url
    else:
        with temporary_server(options={"fsync": "on", "max_connections": "50"}) as embedded:
            yield embedded.url


@asynccontextmanager
async def database(server_url: str) -> AsyncIterator[str]:
    """Make a database with the schema of this release, yield its URL, and drop it."""
    name = f"tidegate_bench_{uuid4().hex}"
    await _administer(server_url, f'create database "{name}" template template0')
    url = urlunsplit(urlsplit(server_url)._replace(path=f"/{name}"))
    try:
        engine = Engine(url)
        try:
            await migrate(engine)
        finally:
            await engine.close()
        yield url
    finally:
        await _administer(server_url, f'drop database "{name}" with (force)')


@asynccontextmanager
async def connection(url: str, **settings: str) -> AsyncIterator[Any]:
    """Yield a connection in which statements are planned once, with further settings of the session."""
    connected = await asyncpg.connect(url, server_settings=STRICT_SETTINGS | settings)
    try:
        yield connected
    finally:
        await connected.close()


async def _administer(url: str, command: str) -> None:
    connected = await asyncpg.connect(url)
    try:
        await connected.execute(command)
    finally:
        await connected.close()
