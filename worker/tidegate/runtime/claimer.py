"""The claim loop: what finished, then what is next, in one call; and the sleep between."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from operator import attrgetter

from tidegate.errors import ConfigurationError
from tidegate.flow.flows import Flow
from tidegate.flow.intakes import Ask
from tidegate.flow.refusals import Refusal
from tidegate.ports import ClaimRequest, OutcomeReply, WorkerGone, WorkerStorePort
from tidegate.routing.actors import ActorData
from tidegate.runtime.backoffs import Backoff, jittered
from tidegate.runtime.bells import Bell
from tidegate.runtime.clocks import DatabaseClock, now
from tidegate.runtime.contacts import Contact
from tidegate.runtime.leases import Lease
from tidegate.runtime.ledgers import Fate, Held, Ledger
from tidegate.runtime.lines import Line, Lines
from tidegate.runtime.outcomes import Outcomes
from tidegate.runtime.registrar import Registrar
from tidegate.runtime.suspects import Suspects

log = logging.getLogger("tidegate.worker")

STAY_ASLEEP = 1.0
"""Seconds of work without a pause after which notifications are given up: less would churn at low rates."""

SCHEMA_WAIT = 2.0
"""Seconds between two looks at a schema that does not fit yet."""

_LONG = 60.0


class Claimer:
    """One coroutine sends claims and outcomes, one call at a time, so what ends during a call goes with the next one.

    Args:
        flow: how much may be held, of what.
        fair: the claim's order; None follows the queue's.
        actors: what this worker can run. Every one is named for every queue: ``using(queue=)`` may send a job of any.
        ledger: what is held.
        lease: nothing starts while it is not good.
        clock: the database's.
        lines: when to look at which queue.
        outcomes: what ended.
        registrar: enters the worker into the database.
        store: where calls go.
        contact: told of failures.
        start: starts a message's code.
        on_gone: called when a call finds this identity dead; stops what runs and calls `lose`.
    """

    def __init__(
        self,
        *,
        flow: Flow,
        fair: bool | None,
        actors: Mapping[str, ActorData],
        ledger: Ledger,
        lease: Lease,
        clock: DatabaseClock,
        lines: Lines,
        outcomes: Outcomes,
        registrar: Registrar,
        store: WorkerStorePort,
        contact: Contact,
        start: Callable[[Held], None],
        on_gone: Callable[[], None],
    ) -> None:
        self._flow = flow
        self._fair = fair
        self._actors = actors
        self._names = list(actors)
        self._ledger = ledger
        self._lease = lease
        self._clock = clock
        self._lines = lines
        self._outcomes = outcomes
        self._registrar = registrar
        self._store = store
        self._contact = contact
        self._start = start
        self._on_gone = on_gone
        self._suspects = Suspects(ledger)
        self._bell = Bell()
        self._pause = Bell()
        self._stopping = False
        self._draining = False
        self._gone = False
        self._held_up = False
        self._asleep = False
        self._disturbed = False
        self._paused_at = now()

    async def run(self) -> None:
        """Work until `stop` was called and everything that was held is acknowledged."""
        backoff = Backoff()
        while not self._is_finished():
            try:
                called = await self._step()
            except WorkerGone:
                self._on_gone()
            except ConfigurationError:
                raise
            except Exception as error:  # noqa: BLE001 - one reply that nobody can read must not end every worker
                self._contact.failed("claims", error)
                await self._pause.wait(backoff.next())
            else:
                if called:
                    self._contact.well("claims")
                    backoff.reset()

    def stop(self) -> None:
        """Claim no more; what a claim brings that is under way goes back unstarted."""
        self._stopping = True
        self.hurry()

    def drain(self) -> bool:
        """Claim no more, but stay: under a new identity the worker claims again. False when it drains already."""
        first, self._draining = not self._draining, True
        self.hurry()
        return first

    @property
    def is_drained(self) -> bool:
        """It claims no more, and nothing is left that it claimed."""
        return (self._stopping or self._draining) and not self._ledger.held and not self._ledger.active

    def lose(self) -> bool:
        """Give this identity up: the database said that it is not alive, and a new one is registered.

        False when that is under way already.
        """
        first, self._gone = not self._gone, True
        self.hurry()
        return first

    def hurry(self) -> None:
        """Look again at what there is to do, also in the middle of a backoff."""
        self._bell.ring()
        self._pause.ring()

    def heard(self, queue: str) -> None:
        """Take a notification."""
        if self._lines.hint(queue):
            self._disturbed = True
            self._bell.ring()

    def room(self, queue: str) -> None:
        """Claim again from a queue that there was no room for; see ``FlowEvents``."""
        if self._lines.reopen(queue):
            self._bell.ring()

    def missed(self) -> None:
        """Look at every queue: notifications may have been lost."""
        self._lines.hint_all()
        self._bell.ring()

    def skip_poll(self) -> None:
        """Put the poll off: a statement was spent elsewhere, and an idle worker sends one a second at most."""
        self._lines.looked(now())

    def renewed(self) -> None:
        """Take note of a good heartbeat: claims that waited for the lease go on."""
        if self._held_up:
            self._held_up = False
            self.hurry()

    def ended(self, held: Held) -> None:
        """Take a message whose code ended."""
        self._outcomes.add(held)
        self._suspects.ended(held)
        if held.limited:
            # Its limit may have kept other jobs of this queue waiting: claim where a mere ack would do otherwise.
            held.line.due = 0.0
        self._bell.ring()

    def _is_finished(self) -> bool:
        return self._stopping and not self._ledger.active and not self._outcomes

    def _may_claim(self) -> bool:
        if self._stopping or self._draining or self._gone or not self._suspects.is_empty:
            return False
        if not self._lease.is_good():
            self._held_up = True
            return False
        return True

    def _next_ask(self) -> tuple[Line, Ask] | None:
        """Return the queue to claim from now, and what fits; queues without room are left alone until there is some."""
        if not self._may_claim():
            return None
        while (line := self._lines.next_due(now())) is not None:
            if (ask := self._ask(line)) is not None:
                return line, ask
        return None

    def _ask(self, line: Line) -> Ask | None:
        # Closed first: what `ask` sets free opens it again at once.
        line.closed = True
        ask = self._flow.intake.ask(line.name, hinted=line.hinted)
        if ask is not None:
            line.closed = False
            if line.was_closed:
                line.was_closed = False
                log.debug("room for a queue again", extra={"queue": line.name})
        elif line.closed:
            if not line.was_closed:
                log.debug("no room for a queue", extra={"queue": line.name})
            self._lines.close(line, now())
        return ask

    def _has_room(self) -> bool:
        """Tell whether any queue may bring something; asked of those that are not due, before a wait for their news."""
        if not self._may_claim():
            return False
        for line in self._lines.open:
            self._ask(line)
        return bool(self._lines.open)

    async def _step(self) -> bool:
        """Do the one next thing; True when the database answered."""
        if self._gone:
            self._renounce()
        if self._ledger.registered_as is None:
            return await self._enter()
        await self._outcomes.send()
        if self._is_finished():
            return True
        found = self._next_ask()
        if found is not None:
            await self._claim(*found)
        elif self._outcomes.has_done:
            await self._outcomes.acknowledge()
        else:
            self._suspects.look()
            room = self._has_room()
            if not await self._settle(room):
                await self._bell.wait(self._patience(room))
                return False
        return True

    async def _enter(self) -> bool:
        entered = not self._stopping and await self._registrar.enter()
        if not entered:
            await self._pause.wait(jittered(SCHEMA_WAIT))
        return entered

    async def _claim(self, line: Line, ask: Ask) -> None:
        ledger = self._ledger
        number = ledger.next_claim
        taken = self._outcomes.take_done()
        request = ClaimRequest(
            worker=ledger.worker,
            claim=number,
            queue=line.name,
            slots=ask.slots,
            actors=list(ask.actors),
            rooms=None if ask.rooms is None else list(ask.rooms),
            budget=ask.budget,
            largest=ask.largest,
            refused_above=ask.refused_above,
            fair=self._fair,
            done_jobs=[held.job for held in taken],
            done_claims=[held.claim for held in taken],
            # A queue with work that others want too: let go of it before the flush. Else one call is enough.
            early=line.full and self._lines.shared,
        )
        self._lines.sent(line, now())
        try:
            reply = await self._store.claim(request)
            # Who comes first is the first to run, where not all can at once.
            jobs = sorted(reply.jobs, key=attrgetter("place"))
            claimed = [Held.of(job, number, self._actors[job.actor], line) for job in jobs]
            next_at = None if reply.next_at is None else self._clock.local(reply.next_at)
        except BaseException:
            # Its reply never came or cannot be read: by the next heartbeat the database takes back what it started.
            ledger.next_claim = number + 1
            self._outcomes.put_back(taken)
            raise
        ledger.held.update(claimed)
        ledger.next_claim = number + 1
        if request.early and (claimed or taken):
            try:
                await self._store.flush()
            except BaseException:
                self._outcomes.put_back(taken)
                self._give_back(claimed)
                raise
        self._outcomes.confirm(taken, OutcomeReply(reply.stale, reply.wake), locked=reply.locked)
        ledger.counts.claimed += len(claimed)
        self._lines.claimed(
            line,
            full=len(claimed) >= ask.slots,
            short=self._came_short(ask, claimed, reply.cut),
            found=bool(claimed),
            next_at=next_at,
            now=now(),
        )
        taken_in = self._flow.intake.take(ask, [held.message for held in claimed], reply.cut)
        for held, hold in zip(claimed, taken_in, strict=True):
            if isinstance(hold, Refusal):
                self._refuse(held, hold)
            else:
                held.hold = hold
                if self._may_claim():
                    self._suspects.admit(held)
                    self._start(held)
                else:
                    self._give_back([held])

    def _came_short(self, ask: Ask, claimed: list[Held], cut: int | None) -> bool:
        """Tell whether a claim that did not fill its slots may have left work for want of bytes or for some actor."""
        if cut is not None or len(ask.actors) < len(self._names):
            return True
        if ask.budget is not None and any(held.message.payload_bytes > ask.budget for held in claimed):
            return True  # it came alone
        if ask.rooms is None:
            return False
        came = Counter(held.actor.name for held in claimed)
        return any(came[actor] >= room for actor, room in zip(ask.actors, ask.rooms, strict=True))

    def _refuse(self, held: Held, refusal: Refusal) -> None:
        held.let_go()
        if refusal.action == "nack":
            held.fate, held.error = Fate.FAILED, refusal.error
        else:
            held.fate, held.delay = Fate.REJECTED, self._flow.rejections.delay(held.job)
            held.line.rejects = True
            log.info(
                "a message is too large here and goes back",
                extra={
                    "job": held.job,
                    "actor": held.actor.name,
                    "scope": refusal.scope,
                    "bytes": held.message.payload_bytes,
                    "delay": held.delay.total_seconds(),
                },
            )
        self._outcomes.add(held)

    def _give_back(self, claimed: list[Held]) -> None:
        for held in claimed:
            held.let_go()
            held.fate = Fate.GIVEN_BACK
            self._outcomes.add(held)

    async def _settle(self, room: bool) -> bool:
        """Prepare a wait; True when there was a statement to send, after which everything may be different."""
        ledger = self._ledger
        if not room:
            if self._asleep and self._disturbed and now() - self._paused_at > STAY_ASLEEP:
                await self._store.sleep_on(ledger.worker, [])
                self._asleep = False
                self._lines.went_deaf()
                return True
            return False
        if not self._asleep:
            # Registered first, looked again after: what is enqueued in between is either seen or announced.
            await self._store.sleep_on(ledger.worker, self._lines.names)
            self._asleep = True
        elif self._lines.next_poll() > now():
            self._disturbed = False
            self._paused_at = now()
            return False
        found = await self._store.probe([line.name for line in self._lines.open], self._names)
        self._lines.probed({queue: None if at is None else self._clock.local(at) for queue, at in found.items()}, now())
        return True

    def _patience(self, room: bool) -> float:
        if not self._may_claim():
            return _LONG
        if not room:
            return self._lines.next_poll() - now()
        return min(self._lines.next_known(), self._lines.next_poll()) - now()

    def _renounce(self) -> None:
        # A frozen process wakes up here. Nothing that it holds is its own any more, so no outcome of it may be sent.
        ledger = self._ledger
        self._outcomes.drop_all()
        ledger.held.clear()
        ledger.registered_as = None
        self._gone = self._asleep = self._draining = False
        self._lines.hint_all()
