"""Keeps a listener running and passes on what it hears."""

import asyncio
from collections.abc import Callable

from tidegate.errors import DatabaseError
from tidegate.ports import ListenerPort
from tidegate.runtime.backoffs import Backoff
from tidegate.runtime.clocks import now
from tidegate.runtime.contacts import NOTIFICATIONS, Contact

_STEADY = 10.0


class Hearing:
    """Listens, and listens again after a loss; polling finds in the meantime what was not heard.

    Args:
        listener: one connection's worth of notifications.
        contact: told of losses.
        opened: called when notifications arrive from here on, and some may have been missed before.
        heard: called with each payload.
    """

    def __init__(
        self, listener: ListenerPort, contact: Contact, *, opened: Callable[[], None], heard: Callable[[str], None]
    ) -> None:
        self._listener = listener
        self._contact = contact
        self._opened_hook = opened
        self._heard = heard
        self._opened_at = 0.0
        self._wanted = asyncio.Event()
        self._wanted.set()
        self._listening: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Work until cancelled."""
        backoff = Backoff()
        while True:
            await self._wanted.wait()
            self._opened_at = 0.0
            error = await self._listen()
            if error is None:
                backoff.reset()  # `want` ended it
                continue
            if not isinstance(error, DatabaseError):
                raise error
            self._contact.failed(NOTIFICATIONS, error)
            if self._opened_at and now() - self._opened_at > _STEADY:
                backoff.reset()
            await asyncio.sleep(backoff.next())

    def want(self, wanted: bool) -> None:
        """Begin to listen, or close the connection until it is wanted again."""
        if wanted:
            self._wanted.set()
        else:
            self._wanted.clear()
            if self._listening is not None and self._opened_at:
                self._listening.cancel()

    async def _listen(self) -> BaseException | None:
        """Listen until the connection is lost; return why, or None where it was not wanted any more."""
        listening = self._listening = asyncio.create_task(self._listener.listen(self._opened, self._heard))
        try:
            await asyncio.wait({listening})
        finally:
            self._listening = None
            if not listening.done():
                listening.cancel()
                await asyncio.wait({listening})
            # Looked at where this call is cancelled too: a loss in that instant is no news, and asyncio would print it.
            error = None if listening.cancelled() else listening.exception()
        return error

    def _opened(self) -> None:
        self._opened_at = now()
        self._contact.well(NOTIFICATIONS)
        self._opened_hook()
        if self._listening is not None and not self._wanted.is_set():
            # A connection that is being opened is let be: the driver does not like to be interrupted there.
            self._listening.cancel()
