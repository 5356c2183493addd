"""A bell that one coroutine waits for: cheaper than ``asyncio.Event`` with ``wait_for``, which makes a task a wait."""

import asyncio


class Bell:
    """Rung by callbacks of the loop, heard by one waiter; a ring while nobody waits is kept, several are one."""

    def __init__(self) -> None:
        self._rung = False
        self._waiter: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """End the present wait, or the next one before it begins."""
        self._rung = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, timeout: float) -> bool:  # noqa: ASYNC109 - a wait of its own, without a task and a scope
        """Wait for a ring, at most ``timeout`` seconds; True when there was one."""
        if not self._rung and timeout > 0:
            loop = asyncio.get_running_loop()
            waiter = self._waiter = loop.create_future()
            timer = loop.call_later(timeout, _end, waiter)
            try:
                await waiter
            finally:
                timer.cancel()
                self._waiter = None
        rung, self._rung = self._rung, False
        return rung


def _end(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
