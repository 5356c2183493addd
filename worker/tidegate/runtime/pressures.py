"""What a worker does when its capacity says so: look again, hold back, give back, stop."""

import asyncio
import logging
from collections.abc import Callable

from tidegate.errors import PolicyFailed
from tidegate.flow.backpressure import Transition
from tidegate.model.messages import ReceivedMessageT

log = logging.getLogger("tidegate.worker")


class Pressures:
    """``FlowEvents`` of a worker. They come from within the flow, so what calls back into it is done a turn later.

    Args:
        room: a claim of this queue may bring something.
        give_back: gives back every message that waits to run, but for one.
        listen: begins or ends to listen for notifications.
        fail: a policy failed: the worker drains and ends.
    """

    def __init__(
        self,
        *,
        room: Callable[[str], None],
        give_back: Callable[[ReceivedMessageT | None], None],
        listen: Callable[[bool], None],
        fail: Callable[[], None],
    ) -> None:
        self._room = room
        self._give_back = give_back
        self._listen = listen
        self._fail = fail
        self._away = 0

    def room(self, queue: str) -> None:
        """Look at a queue again: see ``FlowEvents``."""
        self._room(queue)

    def changed(self, transition: Transition) -> None:
        """Tell of it; ``resubscribe`` also gives back what waits and ends listening until it is over."""
        log.info(
            "backpressure holds intake back" if transition.paused else "backpressure lets intake go on",
            extra={"strategy": transition.strategy, "queue": transition.channel, "cause": transition.cause},
        )
        if transition.strategy != "resubscribe":
            return
        self._away += 1 if transition.paused else -1
        if transition.gives_back:
            self._soon(self._give_back, transition.keep)
        self._soon(self._listen_again)

    def failed(self, failure: PolicyFailed) -> None:
        """Stop the worker: see ``FlowEvents``."""
        # The policy was not given a payload, so its error can be shown whole.
        log.critical("a limit policy failed, the worker stops", exc_info=failure, extra={"policy": failure.policy})
        self._soon(self._fail)

    def _listen_again(self) -> None:
        self._listen(self._away == 0)

    @staticmethod
    def _soon(call: Callable[..., None], *arguments: object) -> None:
        asyncio.get_running_loop().call_soon(call, *arguments)
