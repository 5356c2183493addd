"""The database by a URL that may lie in a mounted file, which rotates without a restart."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Protocol

from tidegate.errors import ConfigurationError, SchemaOutdated
from tidegate.store.engine import Engine
from tidegate.store.failures import translated
from tidegate.store.migrating import migrate, schema_state
from tidegate.store.operators import OperatorStore
from tidegate.store.urls import check_database_url

logger = logging.getLogger(__name__)


class UrlSourceT(Protocol):
    """Where the URL comes from."""

    def __call__(self) -> str:
        """Return today's URL; raises ``ConfigurationError`` when there is none."""


def from_file(path: Path) -> UrlSourceT:
    """Read the URL from a file at every call, as Kubernetes mounts a Secret; blanks around it do not count."""

    def read() -> str:
        try:
            text = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f"file {path} with the database URL cannot be read ({type(error).__name__}); mount the Secret there,"
                " or name another file with --database-url-file"
            ) from None
        return check_database_url(text)

    return read


class Database:
    """The store of today's URL, replaced when the URL changes.

    Args:
        source: where the URL comes from.
        cluster: the id under which rows are marked.
    """

    def __init__(self, source: UrlSourceT, cluster: str) -> None:
        self._source = source
        self._cluster = cluster
        self._url: str | None = None
        self._store: OperatorStore | None = None

    async def store(self) -> OperatorStore:
        """Return the store, of a new URL where the file has changed.

        Raises:
            ConfigurationError: the URL cannot be read.
        """
        url = self._source()
        if self._store is None or url != self._url:
            # replaced before anything is awaited: several loops ask
            before, self._url, self._store = self._store, url, OperatorStore(url, self._cluster)
            if before is not None:
                logger.info("the database URL has changed; connecting anew")
                await before.close()
        return self._store

    @property
    def url(self) -> str:
        """Today's URL, for a listener of its own."""
        return self._source()

    async def prepare(self, *, migrating: bool) -> None:
        """Bring the schema to this release under an advisory lock, or check that somebody did.

        Raises:
            SchemaOutdated: the schema is not this release's.
            DatabaseError: no connection, or a refusal.
        """
        engine = Engine(self._source(), max_size=1, application_name="tidegate operator migrations")
        try:
            with translated():
                if migrating:
                    report = await migrate(engine)
                    if report.applied:
                        logger.info("the schema is up to date", extra={"applied": ", ".join(report.applied)})
                    return
                state = await schema_state(engine)
        finally:
            await engine.close()
        if state.version is None or state.version < state.latest:
            raise SchemaOutdated(state.version, state.latest)

    async def close(self) -> None:
        """Close every connection."""
        store, self._store = self._store, None
        if store is not None:
            await store.close()
