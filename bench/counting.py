"""Counts the statements that a process sends, by their text, whoever sends them."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import asyncpg
from asyncpg.connection import LoggedQuery

from tidegate.store.statements import statement


@contextmanager
def counted_statements() -> Iterator[Counter[str]]:
    """Yield the texts and how often each was sent, over all connections that are opened in this block."""
    sent: Counter[str] = Counter()
    connect = asyncpg.connect

    def note(query: LoggedQuery) -> None:
        sent[query.query] += 1

    async def connect_and_count(*args: Any, **options: Any) -> Any:
        connection = await connect(*args, **options)
        connection.add_query_logger(note)
        return connection

    with patch.object(asyncpg, "connect", connect_and_count):
        yield sent


def without_heartbeats(sent: Counter[str]) -> int:
    """Return how many statements there were, heartbeats apart."""
    return sent.total() - sent[statement("heartbeat")]
