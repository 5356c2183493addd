"""The judge on forged histories: silent about what is allowed, and not blind to anything that is not."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Any
from uuid import UUID

import pytest

from tidegate.audit.checkers import judge
from tidegate.audit.executions import find_repeats
from tidegate.audit.histories import Drift, Event, EventKind, History, JobRow, Run
from tidegate.audit.measures import count_tests, highest_running, highest_starts, measure_waits
from tidegate.audit.verdicts import Invariant, Verdict

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ANNA, BERT = UUID(int=1), UUID(int=2)
MINUTE = timedelta(minutes=1)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


class Story:
    """Writes a history by hand: every call is one event, in a transaction of its own, a millisecond after the last."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._policies: dict[str, tuple[int | None, int | None, timedelta | None]] = {}
        self.now = 0.0

    def tell(self, kind: EventKind, **fields: Any) -> Event:
        seq = len(self.events) + 1
        event = Event(**{"seq": seq, "xid": seq, "at": at(self.now + 0.0001), "kind": kind, **fields})
        self.events.append(event)
        self.now += 0.001
        return event

    def policy(
        self, key: str, running: int | None = None, starts: int | None = None, window: timedelta | None = None
    ) -> None:
        self._policies[key] = running, starts, window
        self.tell(EventKind.POLICY, key=key, max_running=running, max_starts=starts, rate_window=window)

    def put(self, job: int, key: str = "k", **fields: Any) -> None:
        self.tell(EventKind.ENQUEUED, job=job, key=key, queue="q", **{"run_at": at(self.now), **fields})

    def start(self, job: int, key: str = "k", worker: UUID = ANNA, claim: int | None = None, **fields: Any) -> Event:
        running, starts, window = self._policies.get(key, (None, None, None))
        told = {
            "began": at(self.now - 0.0001),
            "started_at": at(self.now),
            "max_running": running,
            "max_starts": starts,
            "rate_window": window,
            "worker_ready": True,
            "attempt": 1,
            "max_attempts": 5,
        }
        return self.tell(
            EventKind.STARTED, job=job, key=key, queue="q", worker=worker, claim=claim or job, **{**told, **fields}
        )

    def end(self, job: int, kind: EventKind = EventKind.SUCCEEDED, worker: UUID | None = ANNA, **fields: Any) -> Event:
        spent = kind not in {EventKind.RELEASED, EventKind.RESCUED}
        told = {"claim": job, "key": "k", "queue": "q", "attempt": 1, "attempt_left": 1 if spent else 0}
        return self.tell(kind, job=job, worker=worker, **{**told, **fields})

    def judge(self, *, drained: bool = False, **rest: Any) -> Verdict:
        return judge(History(events=self.events, **rest), drained=drained)


def broken(verdict: Verdict) -> set[Invariant]:
    return {violation.invariant for violation in verdict.violations}


def only(verdict: Verdict, invariant: Invariant, words: str) -> bool:
    return broken(verdict) == {invariant} and words in str(verdict)


@pytest.fixture
def story() -> Story:
    return Story()


def test_ordinary_life_is_silent(story: Story) -> None:
    story.policy("k", running=1, starts=3, window=MINUTE)
    story.put(1)
    story.put(2)
    story.put(3)
    story.now = 1
    story.start(1)
    story.end(1, EventKind.FAILED)
    story.now = 2
    story.start(1, claim=11, attempt=2)
    story.end(1, EventKind.SUCCEEDED, claim=11, attempt=2)
    story.now = 3
    story.start(2)
    story.end(2, EventKind.RELEASED)
    story.end(2, EventKind.CANCELLED, worker=None, claim=None)
    story.end(3, EventKind.EXPIRED, worker=None, claim=None)
    verdict = story.judge(drained=True, jobs=[])
    assert not verdict.violations, str(verdict)
    assert (verdict.jobs, verdict.starts, verdict.keys) == (3, 3, 1)


# I1 -------------------------------------------------------------------------------------------------------------------


def test_lost_job_is_found(story: Story) -> None:
    story.put(1)
    assert only(story.judge(jobs=[]), Invariant.LOST, "neither over nor in the table")


def test_waiting_job_is_not_lost_until_the_workers_had_their_time(story: Story) -> None:
    story.put(1)
    left = [JobRow(id=1, running=False)]
    assert not story.judge(jobs=left).violations
    assert only(story.judge(jobs=left, drained=True), Invariant.LOST, "stuck")


def test_row_that_vanished_without_outcome_is_found(story: Story) -> None:
    story.put(1)
    story.start(1)
    story.end(1, EventKind.REMOVED)
    assert only(story.judge(jobs=[]), Invariant.LOST, "gone without an outcome")


def test_success_that_nobody_ran_is_found(story: Story) -> None:
    story.tell(EventKind.WORKER, worker=ANNA, name="anna")
    story.put(1, item="item-1")
    story.start(1)
    story.end(1)
    ran = Run(item="item-1", worker="anna", at=at(0))
    assert not story.judge(runs=[ran]).violations
    assert only(story.judge(runs=[]), Invariant.LOST, "no worker had run it")
    assert only(story.judge(runs=[replace(ran, at=at(1))]), Invariant.LOST, "no worker had run it")


# I2 -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("silent", "false"), [(4.9, True), (5.0, False), (60.0, False)])
def test_rescue_within_the_lease_is_false(story: Story, silent: float, *, false: bool) -> None:
    story.put(1)
    story.start(1)
    story.end(1, EventKind.RESCUED, silent=timedelta(seconds=silent), lease=timedelta(seconds=5))
    assert broken(story.judge()) == ({Invariant.FALSE_RESCUE} if false else set())


# I3 -------------------------------------------------------------------------------------------------------------------


def test_outcome_under_another_token_is_found(story: Story) -> None:
    story.put(1)
    story.start(1, worker=ANNA)
    story.end(1, worker=BERT)
    assert only(story.judge(), Invariant.TOKEN, "under token")


def test_outcome_after_a_rescue_is_found(story: Story) -> None:
    story.put(1)
    story.start(1, worker=ANNA)
    story.end(1, EventKind.RESCUED, worker=ANNA)
    story.end(1, worker=ANNA)
    assert only(story.judge(), Invariant.TOKEN, "was not running")


def test_outcome_handed_in_by_another_worker_is_found(story: Story) -> None:
    story.put(1)
    story.put(2)
    story.start(1, worker=BERT)
    story.end(1, worker=BERT, xid=77)
    story.start(2, worker=ANNA, xid=77)
    assert only(story.judge(), Invariant.TOKEN, "in a transaction of worker")


def test_outcome_of_a_run_that_the_holder_had_not_finished_is_found(story: Story) -> None:
    story.tell(EventKind.WORKER, worker=ANNA, name="anna")
    story.tell(EventKind.WORKER, worker=BERT, name="bert")
    story.put(1, item="item-1")
    story.start(1, worker=ANNA)
    story.end(1, EventKind.RESCUED, worker=ANNA)
    story.start(1, worker=BERT, claim=1)
    story.end(1, worker=BERT)
    late = Run(item="item-1", worker="anna", at=at(0))
    assert only(story.judge(runs=[late]), Invariant.TOKEN, "under the token of bert")
    assert not story.judge(runs=[late, replace(late, worker="bert")]).violations


def test_job_started_twice_at_once_is_found(story: Story) -> None:
    story.put(1)
    story.start(1, worker=ANNA)
    story.start(1, worker=BERT)
    assert only(story.judge(), Invariant.TOKEN, "started while worker")


def test_job_done_twice_is_found(story: Story) -> None:
    story.put(1)
    story.start(1)
    story.end(1)
    story.end(1)
    assert only(story.judge(), Invariant.TOKEN, "after it was over")


def test_two_live_jobs_of_one_job_key_are_found(story: Story) -> None:
    story.put(1, name="once")
    story.end(1, EventKind.CANCELLED, worker=None, claim=None)
    story.put(2, name="once")
    assert not story.judge().violations
    story.put(3, name="once")
    assert only(story.judge(), Invariant.TOKEN, "have one job_key")


# I4 -------------------------------------------------------------------------------------------------------------------


def test_start_above_the_cap_is_found_by_replay(story: Story) -> None:
    story.policy("k", running=1)
    story.put(1)
    story.put(2)
    story.start(1)
    story.start(2)
    assert only(story.judge(), Invariant.RUNNING, "number 2 of at most 1")


def test_start_above_the_cap_is_found_by_the_count_under_the_lock(story: Story) -> None:
    """An end whose commit came after the start has the lower number, and the replay is fooled."""
    story.policy("k", running=1)
    story.put(1)
    story.put(2)
    story.start(1)
    story.end(1)
    story.start(2, running=2)
    assert only(story.judge(), Invariant.RUNNING, "number 2 of at most 1")


def test_cap_lowered_below_what_runs_breaks_nothing_until_a_start(story: Story) -> None:
    story.policy("k", running=3)
    for job in (1, 2, 3, 4):
        story.put(job)
    for job in (1, 2, 3):
        story.start(job)
    story.policy("k", running=1)
    story.end(1)
    assert not story.judge().violations
    story.start(4)
    assert only(story.judge(), Invariant.RUNNING, "number 3 of at most 1")
    assert highest_running(story.events) == {"k": 3}
    assert count_tests(story.events) == (1, 0), "the third start of three"


def test_cap_of_zero_holds_everything_and_no_policy_holds_nothing(story: Story) -> None:
    for job in (1, 2, 3):
        story.put(job)
    story.start(1)
    story.start(2, key="")
    assert not story.judge().violations
    story.policy("k", running=0)
    story.start(3)
    assert only(story.judge(), Invariant.RUNNING, "number 2 of at most 0")


# I5 -------------------------------------------------------------------------------------------------------------------


def test_drift_is_found(story: Story) -> None:
    drift = Drift(kind="key running", name="k", kept=2, truth=1)
    assert only(story.judge(drift=[drift]), Invariant.DRIFT, "kept as 2 and is 1")


# I6 -------------------------------------------------------------------------------------------------------------------


def starts_at(story: Story, *seconds: float) -> Verdict:
    for second in seconds:
        story.now = second
        job = len(story.events)
        story.put(job)
        story.start(job)
        story.end(job)
    return story.judge()


def test_window_is_half_open(story: Story) -> None:
    story.policy("k", starts=2, window=MINUTE)
    assert not starts_at(story, 1, 2, 61, 62, 121).violations
    assert count_tests(story.events) == (0, 4)


def test_one_start_too_many_in_a_window_is_found(story: Story) -> None:
    story.policy("k", starts=2, window=MINUTE)
    assert only(starts_at(story, 1, 2, 60.999), Invariant.STARTS, "start 3 of 2")
    assert highest_starts(story.events, "k", MINUTE) == 3


def test_wider_window_counts_the_marks_that_still_exist(story: Story) -> None:
    story.policy("k", starts=2, window=timedelta(seconds=10))
    starts_at(story, 1, 2, 14)
    story.policy("k", starts=2, window=MINUTE)
    assert not starts_at(story, 15).violations, "the marks of 1 and 2 had left the narrower window"
    assert only(starts_at(story, 16), Invariant.STARTS, "start 3 of 2")


def test_narrower_and_wider_again_forgets_what_the_narrow_one_let_go(story: Story) -> None:
    story.policy("k", starts=2, window=MINUTE)
    starts_at(story, 1, 2)
    story.now = 3
    story.policy("k", starts=2, window=timedelta(milliseconds=100))
    story.policy("k", starts=2, window=MINUTE)
    assert not starts_at(story, 4, 5).violations


def test_clear_forgets_all_marks(story: Story) -> None:
    story.policy("k", starts=1, window=MINUTE)
    starts_at(story, 1)
    story.policy("k")
    starts_at(story, 2, 3)
    story.now = 4
    story.policy("k", starts=1, window=MINUTE)
    assert not starts_at(story, 5).violations
    assert only(starts_at(story, 6), Invariant.STARTS, "start 2 of 1")


def test_lowered_rate_binds_the_next_start(story: Story) -> None:
    story.policy("k", starts=5, window=MINUTE)
    starts_at(story, 1, 2, 3)
    story.policy("k", starts=2, window=MINUTE)
    assert not story.judge().violations
    assert only(starts_at(story, 10), Invariant.STARTS, "start 4 of 2")


def test_instant_from_before_the_transaction_is_found(story: Story) -> None:
    story.policy("k", starts=1, window=MINUTE)
    story.put(1)
    story.now = 5
    story.start(1, began=at(5), started_at=at(5))
    assert only(story.judge(), Invariant.STARTS, "before its transaction began")


def test_instant_from_before_the_key_was_free_is_found(story: Story) -> None:
    """The beginning of a transaction that then waited for another start: two marks look further apart than they are."""
    story.policy("k", starts=1, window=MINUTE)
    story.put(1)
    story.put(2)
    story.now = 100
    story.start(1)
    story.now = 160
    story.start(2, began=at(99), started_at=at(99.5))
    verdict = story.judge()
    assert only(verdict, Invariant.STARTS, "before its key was locked")
    assert verdict.count(Invariant.STARTS) == 2, "and as its honest instant it is the second start within the window"


def test_several_starts_of_one_claim_share_their_instant(story: Story) -> None:
    story.policy("k", running=9, starts=3, window=MINUTE)
    story.now = 1
    for job in (1, 2, 3):
        story.put(job)
    for job in (1, 2, 3):
        story.start(job, xid=50, running=3)
    assert not story.judge().violations


def test_policy_that_no_event_put_in_force_voids_the_history(story: Story) -> None:
    story.put(1)
    story.start(1, max_running=5)
    assert only(story.judge(), Invariant.AUDIT, "that no event shows")


# I7, I8 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"run_at": at(1.5)}, "before its run_at"),
        ({"expires_at": at(1)}, "after it expired"),
        ({"held": True}, "suspended queue"),
        ({"worker_ready": False}, "draining or not alive"),
        ({"started_at": at(2)}, "ahead of its start"),
    ],
)
def test_start_that_was_not_allowed_is_found(story: Story, fields: dict[str, Any], words: str) -> None:
    story.put(1)
    story.now = 1
    story.start(1, **fields)
    assert only(story.judge(), Invariant.EARLY, words)


def test_start_at_its_very_run_at_is_allowed(story: Story) -> None:
    story.put(1)
    story.now = 1
    story.start(1, run_at=at(1), expires_at=at(1.000001))
    assert not story.judge().violations


@pytest.mark.parametrize("kind", [EventKind.RESCUED, EventKind.RELEASED])
def test_attempt_spent_by_infrastructure_is_found(story: Story, kind: EventKind) -> None:
    story.put(1)
    story.start(1)
    story.end(1, kind, attempt_left=1)
    assert only(story.judge(), Invariant.ATTEMPTS, "was not given back")


def test_attempt_above_the_maximum_is_found(story: Story) -> None:
    story.put(1)
    story.start(1, attempt=6)
    assert only(story.judge(), Invariant.ATTEMPTS, "attempt 6 of 5")


# the history itself ---------------------------------------------------------------------------------------------------


def test_history_that_contradicts_the_table_is_void(story: Story) -> None:
    story.put(1)
    story.start(1)
    story.put(2)
    story.end(2, EventKind.CANCELLED, worker=None, claim=None)
    running = JobRow(id=1, running=True, worker=ANNA, claim=1)
    assert not story.judge(jobs=[running]).violations
    assert only(story.judge(jobs=[replace(running, running=False)]), Invariant.AUDIT, "the history differs")
    assert only(story.judge(jobs=[replace(running, claim=7)]), Invariant.AUDIT, "the history differs")
    assert only(story.judge(jobs=[running, JobRow(id=2, running=False)]), Invariant.AUDIT, "still in the table")
    assert only(story.judge(jobs=[running, JobRow(id=3, running=False)]), Invariant.AUDIT, "not in the history")


def test_start_of_a_job_that_was_never_enqueued_is_found(story: Story) -> None:
    story.start(1)
    assert Invariant.AUDIT in broken(story.judge())


def test_order_of_the_list_does_not_matter(story: Story) -> None:
    story.policy("k", running=1)
    story.put(1)
    story.put(2)
    story.start(1)
    story.end(1)
    story.start(2)
    assert not judge(History(events=story.events[::-1])).violations


# figures --------------------------------------------------------------------------------------------------------------


def test_waits_end_at_the_first_start_and_count_the_unstarted(story: Story) -> None:
    for job in (1, 2, 3, 4):
        story.put(job)
    story.now = 1
    story.start(1)
    story.end(1, EventKind.RELEASED)
    story.now = 2
    story.start(1)
    story.start(2)
    waits = measure_waits(story.events, "k", at(10))
    assert (waits.jobs, waits.unstarted) == (4, 2)
    assert waits.p50 == pytest.approx(2, abs=0.01)
    assert waits.longest == pytest.approx(10, abs=0.01)
    assert measure_waits(story.events, "other", at(10)).jobs == 0


def test_items_done_twice_are_named_with_their_workers() -> None:
    runs = [
        Run(item="b", worker="bert", at=at(2)),
        Run(item="a", worker="anna", at=at(1)),
        Run(item="b", worker="anna", at=at(1)),
    ]
    (repeat,) = find_repeats(runs)
    assert (repeat.item, repeat.workers) == ("b", ("anna", "bert"))


def test_time_grows_with_the_history_and_no_faster() -> None:
    def seconds(jobs: int) -> float:
        story = Story()
        story.policy("k", running=jobs, starts=jobs, window=MINUTE)
        for job in range(1, jobs + 1):
            story.put(job)
            story.start(job)
        for job in range(1, jobs + 1):
            story.end(job)
        began = perf_counter()
        assert not story.judge(drained=True).violations
        return perf_counter() - began

    small = min(seconds(1_000) for _ in range(3))
    assert min(seconds(10_000) for _ in range(3)) < 40 * small, "quadratic would be 100 times"
