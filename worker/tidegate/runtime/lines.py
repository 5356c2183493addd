"""When to look at which queue: what claims, probes and notifications said about each."""

from collections.abc import Iterable
from math import inf

from tidegate.runtime.backoffs import jittered

SHORTEST_WAIT = 0.002
"""Seconds before an empty claim is repeated because of its own hint; doubles with each further one, to a tenth of the
poll: a key that somebody holds for long costs few claims, one that is held for moments delays nobody much."""

HINTED_AGAIN = 0.1
"""Seconds from the last claim of a queue that had no room, after which a hint is worth another one: a job that fits may
stand first by now, and a stream of hints must not become one of claims."""


STEP_BACK = 0.25
"""Seconds that a worker which rejected a message lets the others go first when a time of that queue has come: they all
know the same time, and it would be as quick as they."""


class Line:
    """One queue as this worker sees it. Times are of ``clocks.now``.

    Attributes:
        due: when a claim may find something; infinite where nothing is known.
        full: the last claim filled every slot it asked for, so that there is work and others may want it too.
        hinted: a notification came since the last claim was sent.
        freed: the process got room since then.
        closed: the process has no room for another message of it, or is paused; a hint or a due poll asks again.
        was_closed: there was no room when it was asked for the last time.
        short: the last claim may have left work for want of room, so that room is a reason to claim again.
        closings: how often it was closed.
        look_at: when the poll is due whatever is known.
        claimed_at: when the last claim was sent; queues take turns by it.
        rejects: the last claim that brought messages brought one that this worker rejected.
    """

    __slots__ = (
        "claimed_at",
        "closed",
        "closings",
        "due",
        "empty",
        "freed",
        "full",
        "hinted",
        "look_at",
        "name",
        "rejects",
        "short",
        "was_closed",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.due = 0.0
        self.full = False
        self.hinted = False
        self.freed = False
        self.look_at = 0.0
        self.claimed_at = 0.0
        self.closed = False
        self.was_closed = False
        self.short = False
        self.closings = 0
        self.empty = 0
        self.rejects = False

    def hint(self) -> None:
        """Note that somebody said there is work."""
        self.hinted = True
        if self.closed:
            self.look_at = min(self.look_at, self.claimed_at + HINTED_AGAIN)
        else:
            self.due = 0.0

    def turn(self, instant: float) -> float:
        """Return when this worker acts on a time that the others know as well."""
        return instant + STEP_BACK if self.rejects else instant

    def reopen(self) -> None:
        """Note that the process has room again. That alone is no reason to claim from a queue that had no work."""
        self.closed = False
        self.freed = True
        if self.short or self.hinted:
            self.due = 0.0


class Lines:
    """All queues of a worker; ``poll`` is in seconds. ``shared``: other workers serve them too, as far as is known."""

    def __init__(self, names: Iterable[str], poll: float) -> None:
        self._by_name = {name: Line(name) for name in names}
        self.shared = True
        self._poll = poll

    @property
    def names(self) -> list[str]:
        """The queues' names."""
        return list(self._by_name)

    def hint(self, name: str) -> bool:
        """Pass a notification on; False when it is about no queue of ours."""
        line = self._by_name.get(name)
        if line is not None:
            line.hint()
        return line is not None

    def hint_all(self) -> None:
        """Look at every queue: notifications may have been missed."""
        for line in self._by_name.values():
            line.hint()

    def next_due(self, now: float) -> Line | None:
        """Return the queue to claim from: of those due, the one that waits longest.

        Where one is due, those whose poll is due take part, so that a busy queue never hides another one.
        """
        for line in self._by_name.values():
            if line.closed and line.look_at <= now:
                # What did not fit may stand behind something smaller by now, and nobody may have told us.
                line.hinted = True
                line.reopen()
        if not any(line.due <= now for line in self._by_name.values() if not line.closed):
            return None
        due = (line for line in self._by_name.values() if not line.closed and (line.due <= now or line.look_at <= now))
        return min(due, key=lambda line: line.claimed_at)

    def reopen(self, name: str) -> bool:
        """Look at a queue that the process has room for again; False when it is none of ours."""
        line = self._by_name.get(name)
        if line is not None:
            line.reopen()
        return line is not None

    def close(self, line: Line, now: float) -> None:
        """Leave a queue alone until there is room, somebody says that it has news, or its poll is due."""
        line.closed = line.was_closed = True
        line.closings += 1
        line.look_at = now + jittered(self._poll)

    @property
    def open(self) -> list[Line]:
        """The queues that the process has room for, as far as it has asked."""
        return [line for line in self._by_name.values() if not line.closed]

    def sent(self, line: Line, now: float) -> None:
        """Note that a claim is on its way: a hint or room from here on asks for another one."""
        line.hinted = line.freed = False
        line.claimed_at = now

    def claimed(self, line: Line, *, full: bool, short: bool, found: bool, next_at: float | None, now: float) -> None:
        """Note what a claim said.

        Args:
            line: the queue.
            full: it filled every slot that it asked for.
            short: it may have left work for want of room: of slots, of bytes, or for some actor.
            found: it found a job.
            next_at: when to ask again; None where nothing is known.
            now: the present moment.
        """
        line.full = full
        line.short = full or short
        line.empty = 0 if found else line.empty + 1
        line.rejects = line.rejects and not found
        line.look_at = now + jittered(self._poll)
        if full or line.hinted or (short and line.freed):
            line.due = now
        elif next_at is None:
            line.due = inf
        else:
            # A hint may be wrong again and again (a busy key, a clock that differs); it must never become a hot loop.
            wait = min(SHORTEST_WAIT * 2.0 ** min(line.empty, 16), self._poll / 10) if line.empty else 0.0
            line.due = max(line.turn(next_at), now + wait)

    def probed(self, found: dict[str, float | None], now: float) -> None:
        """Note what a probe of all queues said; a time that is over makes a queue due."""
        self.looked(now)
        for name, next_at in found.items():
            line = self._by_name[name]
            if next_at is not None:
                line.due = min(line.due, line.turn(next_at))

    def went_deaf(self) -> None:
        """Note that news of closed queues are not heard from here on: room is a reason to look."""
        for line in self._by_name.values():
            if line.closed:
                line.hinted = True

    def looked(self, now: float) -> None:
        """Put every poll off: somebody just looked, or spent the statement that a poll would have cost."""
        look_at = now + jittered(self._poll)
        for line in self.open:
            line.look_at = look_at

    def next_poll(self) -> float:
        """Return when the next poll is due."""
        return min(line.look_at for line in self._by_name.values())

    def next_known(self) -> float:
        """Return when the next queue is due by what is known; infinite where nothing is."""
        return min((line.due for line in self._by_name.values() if not line.closed), default=inf)

    def closings(self) -> dict[str, int]:
        """Return how often each queue was closed because the process had no room for it or was paused."""
        return {line.name: line.closings for line in self._by_name.values()}
