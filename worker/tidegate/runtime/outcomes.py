"""Outcomes on their way to the database: kept until they are acknowledged, sent again until they are."""

import logging
from collections.abc import Callable, Sequence
from itertools import islice

from tidegate.ports import OutcomeReply, WorkerStorePort
from tidegate.runtime.ledgers import Fate, Held, Ledger, Stop

log = logging.getLogger("tidegate.worker")

MOST_AT_ONCE = 500
"""Outcomes in one call; error texts are up to 10,000 characters each."""

_SHOWN = 20


class Outcomes:
    """Buffers what ended. Successes wait for the next claim (`take_done`), all else is sent by `send`.

    Args:
        ledger: a message leaves it when its outcome is acknowledged, and not before.
        store: where outcomes go.
        wake: takes the keys that were busy while capacity was freed.
    """

    def __init__(self, ledger: Ledger, store: WorkerStorePort, wake: Callable[[Sequence[str]], None]) -> None:
        self._ledger = ledger
        self._store = store
        self._wake = wake
        self._done: list[Held] = []
        self._others: dict[Fate, list[Held]] = {fate: [] for fate in Fate if fate is not Fate.DONE}

    def __len__(self) -> int:
        """Count what is not acknowledged, but for what is on its way with a claim."""
        return len(self._done) + sum(map(len, self._others.values()))

    @property
    def has_done(self) -> bool:
        """Whether successes wait for the next claim or `acknowledge`."""
        return bool(self._done)

    def add(self, held: Held) -> None:
        """Keep the outcome of a message whose ``fate`` is decided."""
        if held.fate is Fate.DONE:
            self._done.append(held)
        elif held.fate is not None:
            self._others[held.fate].append(held)

    def take_done(self) -> list[Held]:
        """Hand the successes to a claim, which gives them to `confirm` or `put_back`."""
        taken, self._done = self._done, []
        return taken

    def put_back(self, taken: list[Held]) -> None:
        """Keep successes whose claim or flush did not come back; they may have been stored all the same."""
        for held in taken:
            held.resent = True
        self._done[:0] = taken

    def confirm(self, taken: Sequence[Held], reply: OutcomeReply, *, locked: Sequence[int] = ()) -> None:
        """Forget acknowledged outcomes; stale ones are counted, logged and harmless; locked ones are sent again."""
        if locked:
            self.put_back([held for held in taken if held.job in locked])
            taken = [held for held in taken if held.job not in locked]
        stale = set(reply.stale)
        self._ledger.held.difference_update(taken)
        self._note_stale([held for held in taken if held.job in stale and not held.resent])
        counts = self._ledger.counts
        for held in taken:
            if held.job in stale:
                continue
            if held.fate is Fate.DONE:
                counts.succeeded += 1
            elif held.fate is Fate.GIVEN_BACK:
                counts.given_back += 1
            elif held.fate is Fate.REJECTED:
                counts.rejected += 1
            elif held.stop is Stop.CANCELLED:
                counts.cancelled += 1
            else:
                counts.failed += 1
        if reply.wake:
            self._wake(reply.wake)

    def drop_all(self) -> None:
        """Forget every outcome: the worker was rescued and no token of it holds a job any more."""
        dropped = [*self._done, *(held for kept in self._others.values() for held in kept)]
        self._done.clear()
        for kept in self._others.values():
            kept.clear()
        self._note_stale(dropped)

    async def acknowledge(self) -> None:
        """Send the successes on their own, where there is no claim to send them with."""
        taken = self.take_done()
        try:
            reply = await self._store.ack(self._ledger.worker, *_pairs(taken))
        except BaseException:
            self.put_back(taken)
            raise
        self.confirm(taken, reply)

    async def send(self) -> None:
        """Send failures and messages given back."""
        for fate, kept in self._others.items():
            while kept:
                # one call has one delay
                taken = list(islice((held for held in kept if held.delay == kept[0].delay), MOST_AT_ONCE))
                try:
                    reply = await self._send(fate, taken)
                except BaseException:
                    for held in taken:
                        held.resent = True
                    raise
                sent = set(taken)
                kept[:] = [held for held in kept if held not in sent]  # something may have been added meanwhile
                self.confirm(taken, reply)
                if fate in {Fate.FAILED, Fate.REFUSED}:
                    _log_failures(taken, set(reply.dead))

    async def _send(self, fate: Fate, taken: list[Held]) -> OutcomeReply:
        jobs, claims = _pairs(taken)
        if fate in {Fate.GIVEN_BACK, Fate.REJECTED}:
            return await self._store.release(self._ledger.worker, jobs, claims, taken[0].delay)
        errors = [held.error for held in taken]
        tracebacks = [held.traceback for held in taken]
        retry = fate is Fate.FAILED
        return await self._store.nack(self._ledger.worker, jobs, claims, errors, tracebacks, retry=retry)

    def _note_stale(self, stale: list[Held]) -> None:
        if stale:
            self._ledger.counts.stale += len(stale)
            shown = [held.job for held in stale[:_SHOWN]]
            log.warning("outcomes came too late, the jobs run elsewhere", extra={"jobs": shown, "count": len(stale)})


def _pairs(taken: Sequence[Held]) -> tuple[list[int], list[int]]:
    return [held.job for held in taken], [held.claim for held in taken]


def _log_failures(taken: list[Held], dead: set[int]) -> None:
    # The text of an error may quote a payload; the database keeps it, a log line names its class alone.
    for held in taken:
        kind = held.error.partition(":")[0][:100]
        fields = {"job": held.job, "actor": held.actor.name, "attempt": held.message.attempt, "error": kind}
        if held.stop is Stop.CANCELLED:
            log.info("a job was cancelled while it ran", extra=fields)
        elif held.job in dead:
            log.error("a job failed for good", extra=fields)
        else:
            log.warning("a job failed and is tried again", extra=fields)
