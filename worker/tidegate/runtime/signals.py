"""SIGTERM and SIGINT while a worker runs."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def stopping_signals(stop: Callable[[], None], *, wanted: bool) -> Iterator[None]:
    """Call ``stop`` on the running loop for each signal; nothing outside of the main thread, or where unwanted."""
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    handled = (signal.SIGTERM, signal.SIGINT)
    for number in handled:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in handled:
            with suppress(ValueError):
                loop.remove_signal_handler(number)
