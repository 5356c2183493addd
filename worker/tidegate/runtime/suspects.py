"""Jobs that may kill their process: they run alone in it, so that what ends with it is not taken for the cause."""

import asyncio
import logging
from typing import Final

from tidegate.runtime.ledgers import Held, Ledger

log = logging.getLogger("tidegate.worker")

SUSPECT_AFTER: Final = 3
"""Workers that vanished while they ran a job, from which on it runs alone. With the fifth the database takes it for
dead, so two of them were lost to nobody else. Fewer would empty a process for every job that machines failed under."""


class Suspects:
    """Holds back a suspect until the worker holds nothing else, not even an outcome that is not acknowledged.

    While there is one, nothing is claimed: what it would bring would be lost with the process.

    Args:
        ledger: what the worker holds.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._present: Held | None = None

    @property
    def is_empty(self) -> bool:
        """No suspect waits or runs here."""
        return self._present is None

    def admit(self, held: Held) -> None:
        """Take note of a message that is about to be started; a suspect is then started by `look`."""
        if held.lost >= SUSPECT_AFTER:
            self._present = held
            held.alone = asyncio.get_running_loop().create_future()
            log.warning(
                "a job lost several workers and runs alone",
                extra={"job": held.job, "actor": held.actor.name, "lost": held.lost},
            )

    def look(self) -> None:
        """Start the suspect if it is all that is left; to be called whenever that may have come about."""
        held, ledger = self._present, self._ledger
        if held is None or held.alone is None or held.alone.done():
            return
        if ledger.held == {held} and ledger.active == {held}:
            held.alone.set_result(None)

    def ended(self, held: Held) -> None:
        """Take note of a message that ended or went back."""
        if held is self._present:
            self._present = None
