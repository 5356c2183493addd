"""The runtime's parts that need no database: waits, hints, settings, texts, log lines."""

import asyncio
import gc
import json
import logging
import threading
import traceback
import weakref
from datetime import UTC, datetime, timedelta
from functools import partial
from io import StringIO
from itertools import pairwise
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate import App
from tidegate.app import Worker
from tidegate.errors import ConfigurationError, DatabaseUnavailable, InvalidName, InvalidType
from tidegate.model.capacity import ActorLimits, MessageLimits
from tidegate.runtime.backoffs import Backoff
from tidegate.runtime.bells import Bell
from tidegate.runtime.clocks import DatabaseClock, now
from tidegate.runtime.contacts import Contact
from tidegate.runtime.failures import MAX_ERROR, MAX_TRACEBACK, describe, storable, trace
from tidegate.runtime.hearing import Hearing
from tidegate.runtime.leases import Lease
from tidegate.runtime.lines import HINTED_AGAIN, STEP_BACK, Lines
from tidegate.runtime.logs import configure_logging
from tidegate.runtime.settings import WorkerSettings
from tidegate.runtime.threads import ActorThreads
from tidegate.store.listening import Listener
from tidegate.testing import RecordingPolicy

TORN_URL = "postgresql://u:pwSEC/RET@127.0.0.1/x"


async def test_a_ring_before_the_wait_is_kept_and_two_are_one() -> None:
    bell = Bell()
    bell.ring()
    bell.ring()
    assert await bell.wait(10)
    assert not await bell.wait(0)
    waiting = asyncio.create_task(bell.wait(10))
    await asyncio.sleep(0)
    bell.ring()
    assert await waiting
    assert not await bell.wait(0.001)


def test_backoff_doubles_within_its_bounds_and_starts_again() -> None:
    backoff = Backoff(first=1, longest=8)
    waits = [backoff.next() for _ in range(10)]
    for wait, bound in zip(waits, [1, 2, 4, 8, 8, 8, 8, 8, 8, 8], strict=True):
        assert bound / 10 <= wait <= bound
    backoff.reset()
    assert backoff.next() <= 1


def test_the_databases_clock_is_learnt_from_the_middle_of_a_round_trip() -> None:
    clock = DatabaseClock()
    clock.observe(datetime(2020, 1, 1, tzinfo=UTC), sent=100, received=102)
    assert clock.local(datetime(2020, 1, 1, 0, 0, 5, tzinfo=UTC)) == 106


def test_a_lease_counts_from_the_start_of_the_newest_good_heartbeat() -> None:
    lease = Lease(timedelta(seconds=25))
    lease.renew(now() - 30)
    assert lease.is_good()
    lease = Lease(timedelta(0))
    assert not lease.is_good()
    lease.renew(now() + 10)
    assert lease.is_good()


def lines(*names: str) -> Lines:
    return Lines(names, poll=10)


def claimed(made: Lines, name: str, at: float, **said: Any) -> None:
    line = made._by_name[name]
    made.sent(line, at)
    made.claimed(line, **{"full": False, "short": False, "found": False, "next_at": None, "now": at, **said})


def test_a_queue_is_due_at_first_then_when_something_says_so_or_its_poll_is_due() -> None:
    made = lines("a")
    assert made.next_due(1) is not None
    claimed(made, "a", 1)
    assert made.next_due(5) is None
    assert made.next_known() == inf
    assert 11 <= made.next_poll() <= 13.5
    assert made.hint("a")
    assert made.next_due(5) is not None


def test_queues_with_work_take_turns_and_a_poll_is_not_starved_by_them() -> None:
    made = lines("busy", "quiet")
    claimed(made, "quiet", 1)
    claimed(made, "busy", 2, full=True, found=True)
    due = made.next_due(3)
    assert due is not None
    assert due.name == "busy"
    due = made.next_due(20)
    assert due is not None
    assert due.name == "quiet"


def test_a_hint_while_a_claim_is_on_its_way_asks_for_another() -> None:
    made = lines("a")
    line = made._by_name["a"]
    made.sent(line, 1)
    made.hint("a")
    made.claimed(line, full=False, short=False, found=False, next_at=None, now=1)
    assert made.next_due(1) is line


def test_who_rejected_a_message_lets_the_others_go_first_until_it_finds_one_that_fits() -> None:
    made = lines("a")
    line = made._by_name["a"]
    claimed(made, "a", 1, found=True)
    line.rejects = True
    claimed(made, "a", 2, next_at=4)
    assert made.next_known() == 4 + STEP_BACK
    claimed(made, "a", 2)
    made.probed({"a": 4}, 3)
    assert made.next_known() == 4 + STEP_BACK
    claimed(made, "a", 5, found=True)
    claimed(made, "a", 6, next_at=8)
    assert made.next_known() == 8


def test_a_wrong_hint_of_the_database_never_becomes_a_hot_loop() -> None:
    made = lines("a")
    at = 1.0
    waits = []
    for _ in range(20):
        claimed(made, "a", at, next_at=at - 1)
        waits.append(made.next_known() - at)
        at = made.next_known()
    assert waits[0] > 0
    assert all(later >= wait * 0.999 for wait, later in pairwise(waits))
    assert waits[-1] == pytest.approx(1)
    claimed(made, "a", at, found=True, next_at=at - 1)
    assert made.next_known() == at


def test_a_probe_brings_a_queue_forward_and_never_puts_it_off() -> None:
    made = lines("a", "b")
    claimed(made, "a", 1, next_at=4)
    claimed(made, "b", 1)
    made.probed({"a": 8, "b": None}, 3)
    assert made.next_known() == 4
    made.probed({"a": None, "b": 3.5}, 3)
    assert made.next_known() == 3.5
    assert made.next_poll() >= 13


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"queues": ()}, "queues"),
        ({"lease": timedelta(0)}, "lease"),
        ({"poll": timedelta(0)}, "poll"),
        ({"grace": timedelta(seconds=-1)}, "grace"),
        ({"maintenance": timedelta(0)}, "maintenance"),
        ({"heartbeat": timedelta(seconds=26)}, "heartbeat"),
        ({"heartbeat": timedelta(0)}, "heartbeat"),
        ({"fence": timedelta(seconds=30)}, "fence"),
        ({"stall_limit": timedelta(seconds=30)}, "stall_limit"),
        ({"lease": 30}, "lease"),
        ({"lease": None}, "lease"),
        ({"lease": timedelta(milliseconds=1)}, "lease"),
        ({"lease": timedelta(days=2), "stall_limit": timedelta(days=3)}, "lease"),
        ({"heartbeat": 1}, "heartbeat"),
        ({"heartbeat": timedelta(microseconds=1)}, "heartbeat"),
        ({"poll": timedelta(microseconds=1)}, "poll"),
        ({"grace": 5}, "grace"),
        ({"stall_limit": 300}, "stall_limit"),
        ({"fair": "yes"}, "fair"),
        ({"signals": 1}, "signals"),
        ({"name": 5}, "name"),
        ({"name": None}, "name"),
        ({"name": ""}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"name": "\ud800"}, "name"),
        ({"pod": "a\0b"}, "pod"),
        ({"namespace": 5}, "namespace"),
        ({"version": None}, "version"),
        ({"queues": (5,)}, "queues"),
    ],
)
def test_settings_out_of_bounds_are_refused_by_name(changes: dict[str, Any], named: str) -> None:
    with pytest.raises((ConfigurationError, InvalidName), match=f"^{named} must "):
        WorkerSettings(**{"queues": ("a",), **changes})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"queues": 5}, "queues must be names"),
        ({"queues": [5]}, "queues must be text"),
        ({"listen_url": TORN_URL}, "the database URL cannot be read"),
        ({"listen_url": ""}, "the database URL must start with"),
        ({"slots": 0}, "slots must be an integer from 1 to 10000; got 0"),
        ({"slots": 10_001}, "slots must be"),
        ({"slots": True}, "slots must be"),
        ({"slots": "8"}, "slots must be"),
        ({"slots": None}, "slots must be"),
        ({"slots": 2.5}, "slots must be"),
        ({"limits": None}, r"limits must be MessageLimits\(...\); MessageLimits\(\) is no limit, None is not"),
        ({"limits": ActorLimits()}, "limits must be MessageLimits"),
        ({"limits": MessageLimits(), "slots": 8}, "slots and limits both say"),
        ({"limit_policies": RecordingPolicy()}, "limit_policies must be a tuple of policies"),
        ({"limit_policies": (RecordingPolicy,)}, "limit_policies must hold policies, not classes"),
        ({"actor_limits_propagation": "yes"}, "actor_limits_propagation must be 'on' or 'off'"),
    ],
)
def test_a_worker_refuses_options_before_it_runs(options: dict[str, Any], words: str) -> None:
    with pytest.raises((ConfigurationError, InvalidName, InvalidType), match=words) as raised:
        Worker(App("postgresql://u@127.0.0.1/x"), **{"queues": "a", **options})
    assert "SEC" not in str(raised.value)


def test_a_worker_refuses_the_url_of_its_app_without_a_part_of_it() -> None:
    with pytest.raises(ConfigurationError, match="escape") as raised:
        Worker(App(TORN_URL), queues="a")
    assert "SEC" not in str(raised.value)
    assert "RET" not in str(raised.value)


async def test_a_url_that_the_driver_cannot_read_is_told_without_a_part_of_it() -> None:
    with pytest.raises(DatabaseUnavailable) as raised:
        await Listener(TORN_URL).listen(lambda: None, lambda _: None)
    told = "".join(traceback.format_exception(raised.value))
    assert "SEC" not in told
    assert "RET" not in told


def test_settings_refuse_what_is_no_name_and_scale_with_the_lease() -> None:
    with pytest.raises(InvalidName):
        WorkerSettings(queues=(" a",))
    settings = WorkerSettings(queues=("a",), lease=timedelta(seconds=6))
    assert (settings.heartbeat_every, settings.fence_after) == (timedelta(seconds=1), timedelta(seconds=5))
    settings = WorkerSettings(queues=("a",))
    assert (settings.heartbeat_every, settings.fence_after) == (timedelta(seconds=5), timedelta(seconds=25))


@given(st.text(alphabet=st.characters(codec=None), max_size=50))
def test_every_error_text_becomes_one_that_utf8_and_postgres_take(text: str) -> None:
    made = storable(text)
    assert "\0" not in made
    assert len(made) == len(text)
    made.encode()


def test_errors_and_tracebacks_are_bounded_and_keep_what_matters() -> None:
    def deep(levels: int) -> None:
        if levels:
            deep(levels - 1)
        raise ValueError("x" * 10_000)

    with pytest.raises(ValueError, match="xxx") as raised:
        deep(200)
    assert len(describe(raised.value)) == MAX_ERROR
    assert describe(raised.value).startswith("ValueError: xxx")
    assert len(trace(raised.value)) == MAX_TRACEBACK


def test_an_outage_is_told_once_however_many_loops_meet_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    contact = Contact()
    contact.well("claims")
    for _ in range(3):
        contact.failed("claims", OSError("gone"))
        contact.failed("heartbeats", OSError("gone"))
    contact.well("claims")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    contact.well("heartbeats")
    contact.well("heartbeats")
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_an_outage_is_told_although_notifications_never_arrive(caplog: pytest.LogCaptureFixture) -> None:
    contact = Contact()
    contact.failed("notifications", DatabaseUnavailable("a pooler"))
    contact.failed("claims", DatabaseUnavailable("gone"))
    assert [record.__dict__["loop"] for record in caplog.records] == ["notifications", "claims"]


def test_a_loop_that_was_given_up_holds_no_outage_open(caplog: pytest.LogCaptureFixture) -> None:
    contact = Contact()
    contact.failed("payloads", DatabaseUnavailable("gone"))
    contact.forget("payloads")
    contact.failed("claims", DatabaseUnavailable("gone again"))
    assert [record.__dict__["loop"] for record in caplog.records] == ["payloads", "claims"]


def test_the_text_of_an_error_that_nobody_foresaw_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    Contact().failed("claims", OverflowError("canary"))
    assert [record.__dict__["reason"] for record in caplog.records] == ["OverflowError"]


class LosingListener:
    """Loses its connection in the instant in which it is told to end, as a driver does that is still connecting."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def listen(self, *_: Any) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise DatabaseUnavailable("refused") from None


async def test_a_connection_lost_while_its_worker_ends_is_no_error_of_the_loop() -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    listener = LosingListener()
    hearing = Hearing(listener, Contact(), opened=lambda: None, heard=lambda _: None)
    chore = asyncio.create_task(hearing.run())
    await listener.begun.wait()
    chore.cancel()
    await asyncio.wait({chore})
    assert chore.cancelled()
    del chore, hearing
    gc.collect()
    assert reported == []


async def test_threads_run_at_most_so_many_calls_at_once_in_the_callers_context() -> None:
    loop = asyncio.get_running_loop()
    threads = ActorThreads(2)
    done = asyncio.Event()
    running, most, ended = 0, 0, 0

    def enter() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)

    def leave() -> None:
        nonlocal running, ended
        running -= 1
        ended += 1
        if ended == 20:
            done.set()

    def call() -> None:
        loop.call_soon_threadsafe(enter)
        loop.call_soon_threadsafe(leave)

    for _ in range(20):
        threads.submit(call)
    async with asyncio.timeout(30):
        await done.wait()
    threads.close()
    assert most <= 2


class Argument:
    """Something that a call holds."""


async def test_an_idle_thread_keeps_nothing_of_its_last_call() -> None:
    loop = asyncio.get_running_loop()
    threads = ActorThreads(1)
    done = asyncio.Event()
    argument = Argument()
    gone = weakref.ref(argument, lambda _: loop.call_soon_threadsafe(done.set))

    def call(_held: Argument) -> None:
        """Do nothing with it."""

    threads.submit(partial(call, argument))
    del argument
    async with asyncio.timeout(30):
        await done.wait()
    assert gone() is None
    threads.close()


async def test_a_thread_that_cannot_be_started_leaves_its_call_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    threads = ActorThreads(2)
    entered, leave, done = asyncio.Event(), threading.Event(), asyncio.Event()

    def first() -> None:
        loop.call_soon_threadsafe(entered.set)
        leave.wait(30)

    def refuse(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as broken:
        broken.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            ActorThreads(1).submit(first)
    threads.submit(first)
    await entered.wait()
    with monkeypatch.context() as broken:
        broken.setattr(threading.Thread, "start", refuse)
        threads.submit(lambda: loop.call_soon_threadsafe(done.set))
    leave.set()
    async with asyncio.timeout(30):
        await done.wait()
    threads.close()


def test_a_closed_queue_is_asked_again_soon_after_a_hint_and_not_at_each_of_them() -> None:
    made = lines("a")
    line = made._by_name["a"]
    claimed(made, "a", 1)
    made.close(line, 1)
    for _ in range(100):
        made.hint("a")
        assert made.next_due(1.05) is None
    assert made.next_poll() == pytest.approx(1 + HINTED_AGAIN)
    assert made.next_due(1.2) is line
    assert line.hinted
    made.close(line, 1.2)
    made.reopen("a")
    assert line.hinted, "a hint is kept until a claim was sent"


def test_a_closed_queue_is_asked_again_when_its_poll_is_due_although_others_were_looked_at() -> None:
    made = lines("a", "b")
    claimed(made, "a", 1)
    claimed(made, "b", 1)
    made.close(made._by_name["a"], 1)
    made.looked(8)
    assert made.next_due(10.9) is None
    assert made.next_due(14) is made._by_name["a"]


def test_room_is_no_reason_to_claim_from_a_queue_that_had_no_work() -> None:
    made = lines("a")
    line = made._by_name["a"]
    claimed(made, "a", 1)
    made.close(line, 1)
    made.reopen("a")
    assert (made.open, made.next_due(1)) == ([line], None)
    made.close(line, 1)
    made.went_deaf()
    made.reopen("a")
    assert made.next_due(1) is line


def test_room_while_a_claim_is_on_its_way_asks_for_another_where_that_came_short() -> None:
    made = lines("a")
    line = made._by_name["a"]
    for short in (False, True):
        made.sent(line, 1)
        made.reopen("a")
        made.claimed(line, full=False, short=short, found=False, next_at=None, now=1)
        assert (made.next_due(1) is line) == short


def test_room_opens_a_closed_queue_at_once() -> None:
    made = lines("a")
    claimed(made, "a", 1, short=True)
    made.close(made._by_name["a"], 1)
    assert made.open == []
    assert made.next_known() == inf
    assert made.reopen("a")
    assert not made.reopen("b")
    assert made.next_due(1) is made._by_name["a"]


@pytest.fixture
def stream() -> Any:
    """A stream that log records go to for the duration of a test."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield StringIO()
    for handler in list(root.handlers):
        root.removeHandler(handler)
    for handler in before:
        root.addHandler(handler)
    root.setLevel(level)


def test_a_text_line_is_one_line_of_keys_and_values(stream: StringIO) -> None:
    configure_logging("text", "info", stream)
    logging.getLogger("tidegate.worker").info(
        "a job\nfailed",
        extra={"job": 7, "actor": "say hello", "queues": ["a", "b"], "key": "plain", "forged": "x\ny=1"},
    )
    logging.getLogger("tidegate.worker").debug("not shown")
    (line,) = stream.getvalue().splitlines()
    assert line.endswith(
        r'INFO tidegate.worker "a job\nfailed" job=7 actor="say hello" queues=["a","b"] key=plain forged="x\ny=1"'
    )


def test_a_json_line_is_one_object_with_its_traceback(stream: StringIO) -> None:
    configure_logging("json", logging.INFO, stream)
    logging.getLogger("x").error("it failed", exc_info=ValueError("broken"), extra={"job": 7})
    (line,) = stream.getvalue().splitlines()
    made = json.loads(line)
    assert (made["level"], made["logger"], made["message"], made["job"]) == ("ERROR", "x", "it failed", 7)
    assert "ValueError: broken" in made["exception"]


@pytest.mark.parametrize("format", ["text", "json"])
@pytest.mark.parametrize(
    "text", ["postgresql://user:s3cret@host/db", "postgres://u:s3cret@h:5/d?x=1", "host=h password=s3cret user=u"]
)
def test_no_password_is_logged(stream: StringIO, format: Any, text: str) -> None:  # noqa: A002
    configure_logging(format, "INFO", stream)
    logging.getLogger("x").error("cannot reach %s", text, exc_info=OSError(text), extra={"url": text})
    assert "s3cret" not in stream.getvalue()
    assert "host" in stream.getvalue() or "@h" in stream.getvalue()
