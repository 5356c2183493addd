"""Execution: what a message reserves before its code starts, and gives back when it has run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tidegate.errors import PolicyFailed
from tidegate.flow.backpressure import Backpressure
from tidegate.flow.intakes import Hold
from tidegate.flow.policies import LimitPolicyT, ReservationLeaseT, policy_name
from tidegate.flow.pools import Pool
from tidegate.flow.reservations import Reservation, Reservations, State, Way
from tidegate.model.messages import ReceivedMessageT


class Lease:
    """Capacity of custom policies, actor and router on its way to one message, or in its hands.

    ``async with lease:`` waits for it and gives it back. Where that does not fit: run the code at once if `is_ready`,
    else after `wait`, and call `release` in the end, once or more, whatever happened.
    """

    __slots__ = ("_cause", "_execution", "_hold", "_message", "_over", "_policies", "_reservation", "_taken", "_waiter")

    def __init__(self, execution: Execution, message: ReceivedMessageT, hold: Hold) -> None:
        self._execution = execution
        self._message = message
        self._hold = hold
        self._policies = hold.passage.policies
        self._taken: list[tuple[LimitPolicyT, ReservationLeaseT]] = []
        self._reservation: Reservation | None = None
        self._cause: Pool | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._over = False
        if not self._policies:
            self._enter()

    async def __aenter__(self) -> Self:
        await self.wait()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    @property
    def is_ready(self) -> bool:
        """The code may run now, without a wait."""
        reservation = self._reservation
        return not self._over and reservation is not None and reservation.state is State.GRANTED

    async def wait(self) -> None:
        """Wait until the code may run; to be called once. Whatever it raises, nothing is held afterwards.

        Raises:
            PolicyFailed: a custom policy raised; `FlowEvents.failed` was told.
            CancelledError: the task was cancelled, or `release` called meanwhile.
        """
        if self.is_ready:
            return
        try:
            self._check()
            for policy in self._policies:
                self._taken.append((policy, await self._execution.ask(policy, self._message, self._hold)))
                self._check()
            if self._reservation is None:
                self._enter()
            if not self.is_ready:
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Give back what is held and wait no longer; nothing the second time.

        Slots are free at once. Leases of custom policies are released by a task of their own, the latest first, which
        cancelling the caller does not touch; ``Execution.settle`` waits for those.
        """
        self._over = True
        reservation, self._reservation = self._reservation, None
        if reservation is not None:
            self._execution.leave(reservation)
            self._waited()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.cancel()
        if self._taken:
            taken, self._taken = self._taken, []
            self._execution.release_later(taken)

    def _enter(self) -> None:
        passage = self._hold.passage
        reservation = self._execution.enter(passage.way, self._message.payload_bytes, self._granted)
        self._reservation = reservation
        if reservation.is_waiting:
            self._cause = reservation.blocked
            if self._cause is not None:
                self._execution.backpressure.began(self._hold.plan, self._cause, self._message)

    def _check(self) -> None:
        if self._over:
            raise asyncio.CancelledError("the lease was released before it was had")

    def _granted(self) -> None:
        self._waited()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _waited(self) -> None:
        cause, self._cause = self._cause, None
        if cause is not None:
            self._execution.backpressure.ended(self._hold.plan, cause)


class Execution:
    """Makes leases. Used on one event loop."""

    def __init__(self, backpressure: Backpressure) -> None:
        self.backpressure = backpressure
        self._reservations = Reservations()
        self._releases: set[asyncio.Task[None]] = set()

    def reserve(self, message: ReceivedMessageT, hold: Hold) -> Lease:
        """Return a message's lease, which stands in line from now on unless custom policies come first.

        It is ready at once, or must be waited for (`Lease.wait`), and must be released in either case.
        """
        return Lease(self, message, hold)

    def enter(self, way: Way, size: int, granted: Callable[[], None]) -> Reservation:
        """Reserve pools: see `Reservations.enter`."""
        return self._reservations.enter(way, size, granted)

    def leave(self, reservation: Reservation) -> None:
        """End a reservation of pools."""
        held = reservation.state is State.GRANTED
        self._reservations.leave(reservation)
        if held:
            self.backpressure.freed(reservation.way.pools)

    async def ask(self, policy: LimitPolicyT, message: ReceivedMessageT, hold: Hold) -> ReservationLeaseT:
        """Reserve capacity of a custom policy.

        Raises:
            PolicyFailed: it raised, or what it returned cannot be released.
        """
        task = asyncio.current_task()
        cancels = task.cancelling() if task is not None else 0
        waits = ends = False

        async def on_wait() -> None:
            nonlocal waits
            if not waits and not ends:
                waits = True
                self.backpressure.began(hold.plan, policy, message)

        try:
            lease = await policy.reserve(message, hold.passage.actor.data, on_wait)
            _check_lease(lease)
        except GeneratorExit:
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > cancels:
                raise
            raise self._failed(policy, "reserve", error) from error
        finally:
            ends = True
            if waits:
                self.backpressure.ended(hold.plan, policy)
        if task is not None and task.cancelling() > cancels:
            # The policy kept the cancellation to itself; the message goes back all the same.
            self.release_later([(policy, lease)])
            raise asyncio.CancelledError
        return lease

    def release_later(self, taken: list[tuple[LimitPolicyT, ReservationLeaseT]]) -> None:
        """Release leases of custom policies, the latest first, each exactly once."""
        task = asyncio.get_running_loop().create_task(self._release(taken))
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)

    async def settle(self) -> None:
        """Wait until no release is under way."""
        while self._releases:
            await asyncio.wait(self._releases)

    async def _release(self, taken: list[tuple[LimitPolicyT, ReservationLeaseT]]) -> None:
        for policy, lease in reversed(taken):
            try:
                await lease.release()
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001 - the user's code; the others are released all the same
                self._failed(policy, "release", error)

    def _failed(self, policy: LimitPolicyT, phase: str, error: BaseException) -> PolicyFailed:
        failure = PolicyFailed(policy_name(policy), phase)
        failure.__cause__ = error
        self.backpressure.fail(failure)
        return failure


def _check_lease(lease: object) -> None:
    if not callable(getattr(lease, "release", None)):
        raise TypeError(f"reserve() returned {type(lease).__name__}, which has no release()")
