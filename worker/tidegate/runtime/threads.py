"""Threads for synchronous actors: daemons, because a thread cannot be killed and must not keep a process alive."""

import contextvars
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue


class ActorThreads:
    """At most ``size`` threads, started as they are needed and kept.

    The standard executor's threads are joined when the interpreter ends, so one stuck actor would hang the exit.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._threads = 0
        self._work: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)

    def submit(self, call: Callable[[], object]) -> None:
        """Run a call, which must not raise, in a copy of the present context. Called by one thread only.

        Where the system has no room for another thread, the call waits for one that is there.

        Raises:
            RuntimeError: there is none; the call will not run.
        """
        context = contextvars.copy_context()
        if not self._idle.acquire(blocking=False) and self._threads < self._size:
            thread = threading.Thread(target=self._serve, name=f"tidegate actor {self._threads + 1}", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                if not self._threads:
                    raise
            else:
                self._threads += 1
        self._work.put(partial(context.run, call))

    def close(self) -> None:
        """Let every thread end after the call that it is in."""
        for _ in range(self._threads):
            self._work.put(None)

    def _serve(self) -> None:
        while (call := self._work.get()) is not None:
            call()
            # Else an idle thread would hold the arguments of its last call, which count no more.
            del call
            self._idle.release()
