"""Storms of random operations over 8 connections: 4,000 operations on each server, 10^5 with ``FULL=1``."""

from __future__ import annotations

import os

import pytest

from tests.postgres.storms import Form, storm

FULL = os.environ.get("FULL") == "1"

SLOW = frozenset({"admit_keys", "choose_jobs", "account_slow", "settle_keys"})
GATES = SLOW | {"close_gates", "look_after_gates", "open_lanes", "reopen"}

FORMS = (
    Form(
        name="one lane a group",
        paths=frozenset({"fold_mail", "hand_in", "free_keys", "raise_low_waters"}),
        keys=tuple(f"k{number}" for number in range(30)),
        policies=({"max_running": 50}, {"weight": 2}),
        priorities=(0,),
        free=0,
        meddling=0.02,
    ),
    Form(
        name="several lanes a group",
        paths=SLOW | {"regroup", "make_lanes", "weigh_lanes"},
        order="fair",
        actors=("x", "y"),
        groups=("t1", "t2", "t3"),
    ),
    Form(
        name="both orders",
        paths=SLOW | {"widen_order", "next_lanes_plain", "regroup"},
        groups=("t1", "t2", "k1"),
        fair=(True, False, None),
    ),
    Form(
        name="one vendor, many lanes",
        paths=GATES,
        keys=("vendor",),
        groups=tuple(f"t{number}" for number in range(25)),
        policies=({"max_running": 3}, {"max_running": 5}, {"max_running": 1}),
        order="fair",
        free=0.02,
    ),
    Form(
        name="rates",
        paths=GATES,
        groups=("t1", "t2"),
        policies=(
            {"max_starts": 1, "window_ms": 100},
            {"max_starts": 3, "window_ms": 150},
            {"max_starts": 4, "window_ms": 100, "max_running": 2},
        ),
    ),
    Form(
        name="budgets and rooms",
        paths=SLOW,
        queues=("a",),
        actors=("x", "y", "z"),
        sizes=(0, 10, 200, 1500),
        budgets=(100, 600, 3000, None),
        fair=(None, True),
    ),
    Form(
        name="scheduled and expiring",
        paths=SLOW | {"promote_jobs", "expire_jobs"},
        delays=(0, 0, 0.001, 0.01, 0.05),
        lives=(0, 0, 0.02, 0.1),
    ),
    Form(
        name="workers that vanish",
        paths=GATES | {"retire_worker", "give_back", "requeue_jobs"},
        queues=("a", "b", "c"),
        groups=("t1", "t2", "t3", "t4"),
        policies=({"max_running": 1}, {"max_running": 2}, {"max_starts": 2, "window_ms": 100}, {"max_running": 0}),
        meddling=0.15,
        vanishing=0.1,
    ),
)

OPERATIONS = (100_000 if FULL else 4_000) // len(FORMS)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
async def test_no_rule_is_broken_in_a_storm(database_url: str, form: Form) -> None:
    aftermath = await storm(database_url, form, OPERATIONS)
    assert not aftermath.complaints()
    # which rare paths five hundred operations take is left to chance; ten thousand take them all
    wanted = form.paths if FULL else form.paths & SLOW
    assert wanted <= aftermath.called, "a path that this form is for was not taken"
    assert aftermath.verdict.starts > OPERATIONS / 10
