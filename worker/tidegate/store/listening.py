"""Notifications of the channel ``tidegate`` on a connection of their own."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tidegate.errors import DatabaseUnavailable
from tidegate.store.worker_sessions import DRIVER_ERRORS, TCP_USER_TIMEOUT_MS, open_connection, unavailable

CHANNEL = "tidegate"
CONNECT_TIMEOUT = 10.0
"""Seconds for one connection attempt."""


class Listener:
    """``ListenerPort`` on Postgres.

    Args:
        database_url: a pooler in transaction mode loses LISTEN, so this may have to be another URL than the worker's.
        check_every: seconds between two looks whether a silent connection is still there; None waits to be told.
    """

    def __init__(self, database_url: str, *, check_every: float | None = None) -> None:
        self._database_url, self._check_every = database_url, check_every

    async def listen(self, opened: Callable[[], None], heard: Callable[[str], None]) -> None:
        """Listen until the connection is lost: see ``ListenerPort``."""
        settings = {"application_name": "tidegate listener", "tcp_user_timeout": str(TCP_USER_TIMEOUT_MS)}
        lost = asyncio.get_running_loop().create_future()

        def on_end(_: Any) -> None:
            if not lost.done():
                lost.set_result(None)

        def on_notification(_connection: Any, _pid: int, _channel: str, payload: object) -> None:
            heard(str(payload))

        try:
            connection = await open_connection(self._database_url, settings, CONNECT_TIMEOUT)
        except DRIVER_ERRORS as error:
            raise unavailable(self._database_url, error) from error
        try:
            connection.add_termination_listener(on_end)
            async with asyncio.timeout(CONNECT_TIMEOUT):
                await connection.add_listener(CHANNEL, on_notification)
            opened()
            while not (await asyncio.wait([lost], timeout=self._check_every))[0]:
                await connection.execute("select 1", timeout=CONNECT_TIMEOUT)
        except DRIVER_ERRORS as error:
            raise unavailable(self._database_url, error) from error
        finally:
            with suppress(Exception):
                connection.terminate()
        raise DatabaseUnavailable("the connection that listens for notifications was lost")
