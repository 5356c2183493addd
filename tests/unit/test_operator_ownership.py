"""Who decides about a row: every case as a table of (claims, what is stored, the world) and what must come of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tidegate.model.ownership import HeldRow, Ownership
from tidegate_operator.reconcile.ownership import Cause, Claim, Decision, World, decide

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
GRACE = timedelta(seconds=30)
FOUR = {"key": "k", "max_running": 4}
FIVE = {"key": "k", "max_running": 5}
NOTHING = {"key": "k", "max_running": None}


def claim(uid: str = "a", **changes: Any) -> Claim:
    plain = Claim(
        uid=uid,
        namespace="team",
        name=f"limit-{uid}",
        created_at="2026-01-01T00:00:00Z",
        generation=1,
        row="k",
        fields=FOUR,
        grace=GRACE,
    )
    return replace(plain, **changes)


def owner(uid: str = "a", **changes: Any) -> Ownership:
    plain = Ownership(cluster="c1", namespace="team", name=f"limit-{uid}", uid=uid, generation=1, grace=GRACE)
    return plain.model_copy(update=changes)


def held(fields: Mapping[str, Any] = FOUR, by: Ownership | None = None) -> HeldRow:
    return HeldRow("k", fields, fields != NOTHING, by)


@dataclass(frozen=True)
class Case:
    label: str
    claims: tuple[Claim, ...]
    stored: HeldRow | None
    writes: tuple[str, Cause] | None = None
    settled: tuple[str, ...] = ()
    conflicts: Mapping[str, str] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    orphaned: bool = False
    waits: bool = False
    due: bool = False
    asks: str | None = None
    known: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    namespaces: frozenset[str] | None = None


OLDER = {"created_at": "2025-12-31T00:00:00Z"}
LATER = {"created_at": "2026-01-02T00:00:00Z"}
LONG_GONE: dict[str, Any] = {"orphaned_at": NOW - GRACE}
JUST_GONE: dict[str, Any] = {"orphaned_at": NOW - GRACE + timedelta(microseconds=1)}

CASES = (
    Case("a new key", (claim(),), None, writes=("a", Cause.CREATED)),
    Case("a key in use without a policy", (claim(),), held(NOTHING), writes=("a", Cause.CREATED)),
    Case("a policy made by hand", (claim(),), held(FIVE), writes=("a", Cause.ADOPTED)),
    Case("a policy made by hand that is the same", (claim(),), held(FOUR), writes=("a", Cause.ADOPTED)),
    Case("as it should be", (claim(),), held(by=owner()), settled=("a",)),
    Case("another generation", (claim(generation=2, fields=FIVE),), held(by=owner()), writes=("a", Cause.CHANGED)),
    Case("another generation, equal policy", (claim(generation=2),), held(by=owner()), writes=("a", Cause.CHANGED)),
    Case("another grace alone", (claim(grace=GRACE * 2),), held(by=owner()), writes=("a", Cause.RETURNED)),
    Case("under a former id of ours", (claim(),), held(by=owner(cluster="c0")), writes=("a", Cause.MOVED)),
    Case(
        "under a former id and changed by hand",
        (claim(),),
        held(FIVE, owner(cluster="c0")),
        writes=("a", Cause.MOVED),
    ),
    Case(
        "of another object under a former id",
        (claim("b"),),
        held(by=owner(cluster="c0")),
        conflicts={"b": "a"},
        asks="a",
    ),
    Case("nobody asks for it, under a former id", (), held(by=owner(cluster="c0")), orphaned=True),
    Case("changed by hand", (claim(),), held(FIVE, owner()), writes=("a", Cause.DRIFTED)),
    Case("cleared by hand, owner and all", (claim(),), held(NOTHING), writes=("a", Cause.CREATED)),
    Case("the row is ahead of the watch", (claim(),), held(FIVE, owner(generation=2)), stale=("a",)),
    Case(
        "the row is ahead of the object itself: restored from a backup",
        (claim(fresh=True),),
        held(FIVE, owner(generation=2)),
        writes=("a", Cause.CHANGED),
    ),
    Case("back before its grace was over", (claim(),), held(by=owner(**JUST_GONE)), writes=("a", Cause.RETURNED)),
    Case(
        "replaced under its name, before anybody saw it go",
        (claim("b", name="limit-a", generation=1, fields=FIVE),),
        held(by=owner(generation=7)),
        writes=("b", Cause.REPLACED),
        known=("a",),
    ),
    Case(
        "replaced under its name after it was marked",
        (claim("b", name="limit-a"),),
        held(by=owner(**LONG_GONE)),
        writes=("b", Cause.REPLACED),
    ),
    Case(
        "the same name in another namespace is another object",
        (claim("b", name="limit-a", namespace="other"),),
        held(by=owner()),
        conflicts={"b": "a"},
        known=("a",),
        unreadable=("a",),
    ),
    Case(
        "two at once: the oldest", (claim("a"), claim("b", **OLDER)), None, ("b", Cause.CREATED), conflicts={"a": "b"}
    ),
    Case("two of one age: by name", (claim("b"), claim("a")), None, ("a", Cause.CREATED), conflicts={"b": "a"}),
    Case(
        "the recorded owner wins over an older object",
        (claim("a"), claim("b", **OLDER)),
        held(by=owner()),
        settled=("a",),
        conflicts={"b": "a"},
    ),
    Case(
        "its change is written although another asks too",
        (claim("a", generation=2), claim("b")),
        held(by=owner()),
        ("a", Cause.CHANGED),
        conflicts={"b": "a"},
    ),
    Case("an owner that nobody saw is asked for", (claim("b"),), held(by=owner()), conflicts={"b": "a"}, asks="a"),
    Case(
        "an owner that is gone is succeeded by the oldest",
        (claim("c", **LATER), claim("b")),
        held(by=owner()),
        ("b", Cause.SUCCEEDED),
        conflicts={"c": "b"},
        gone=("a",),
    ),
    Case(
        "an owner that is marked is asked for all the same",
        (claim("b"),),
        held(by=owner(**LONG_GONE)),
        conflicts={"b": "a"},
        asks="a",
    ),
    Case("another cluster's row", (claim(),), held(by=owner(cluster="c2")), conflicts={"a": "a"}),
    Case("another cluster's row without a claim", (), held(by=owner(cluster="c2", **LONG_GONE))),
    Case(
        "a row of a namespace that is not watched",
        (claim("b"),),
        held(by=owner(namespace="other")),
        conflicts={"b": "a"},
        namespaces=frozenset({"team"}),
    ),
    Case(
        "a row of a namespace that is not watched, without a claim",
        (),
        held(by=owner(namespace="other", **LONG_GONE)),
        namespaces=frozenset({"team"}),
    ),
    Case("the object is gone", (), held(by=owner()), orphaned=True),
    Case(
        "the object is gone, one watched namespace", (), held(by=owner()), orphaned=True, namespaces=frozenset({"team"})
    ),
    Case("its grace is not over", (), held(by=owner(**JUST_GONE)), waits=True),
    Case("its grace is over", (), held(by=owner(**LONG_GONE)), due=True),
    Case("there, but unreadable", (), held(by=owner()), known=("a",), unreadable=("a",)),
    Case("nothing asked, nothing owned", (), held(FIVE)),
    Case("nothing at all", (), None),
    Case("a namespace without the right", (claim(allowed=False),), None, refused=("a",)),
    Case(
        "a namespace without the right waits for nobody",
        (claim("a", allowed=False, **OLDER), claim("b")),
        None,
        ("b", Cause.CREATED),
        refused=("a",),
    ),
    Case(
        "an owner that lost the right keeps it", (claim(allowed=False),), held(by=owner()), refused=("a",), known=("a",)
    ),
    Case(
        "until one with the right asks",
        (claim("a", allowed=False), claim("b")),
        held(by=owner()),
        ("b", Cause.SUCCEEDED),
        refused=("a",),
        known=("a", "b"),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_decisions(case: Case) -> None:
    decision = made(case)
    assert written(decision) == case.writes
    assert decision.settled == case.settled
    assert {uid: each.uid for uid, each in decision.conflicts.items()} == case.conflicts
    assert decision.refused == case.refused
    assert decision.stale == case.stale
    assert (decision.orphan is not None) == case.orphaned
    assert (decision.waits is not None) == case.waits
    assert (decision.due is not None) == case.due
    assert (decision.ask.uid if decision.ask else None) == case.asks


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_every_claim_gets_exactly_one_answer(case: Case) -> None:
    decision = made(case)
    writer = (decision.write.claim.uid,) if decision.write else ()
    answered = [*decision.settled, *decision.conflicts, *decision.refused, *decision.stale, *writer]
    assert sorted(answered) == sorted(each.uid for each in case.claims)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_what_is_written_is_settled_afterwards(case: Case) -> None:
    write = made(case).write
    if write is None:
        return
    after = replace(case, stored=HeldRow("k", write.claim.fields, declared=True, owner=write.owner))
    decision = made(after)
    assert decision.write is None
    assert decision.settled == (write.claim.uid,)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_a_row_of_somebody_else_is_never_written(case: Case) -> None:
    decision = made(case)
    if decision.write is not None and decision.write.expected is not None:
        assert decision.write.expected.cluster in {"c0", "c1"}
        assert case.namespaces is None or decision.write.expected.namespace in case.namespaces


def test_an_orphan_keeps_what_its_object_asked_for_its_end() -> None:
    stored = owner(generation=3, retain=True, grace=timedelta(minutes=5))
    marked = decide("k", (), held(by=stored), World("c1", NOW)).orphan
    assert marked == stored.model_copy(update={"orphaned_at": NOW})
    assert marked is not None
    assert Ownership.model_validate(marked.to_json()).ends_at == NOW + timedelta(minutes=5)


def test_a_replacement_starts_without_the_mark() -> None:
    stored = held(by=owner(**LONG_GONE))
    write = decide("k", (claim("b", name="limit-a"),), stored, World("c1", NOW)).write
    assert write is not None
    assert write.expected == stored.owner
    assert write.owner.orphaned_at is None


def test_drift_names_the_fields() -> None:
    write = decide("k", (claim(),), held(FIVE, owner()), World("c1", NOW, known=frozenset("a"))).write
    assert write is not None
    assert write.drifted == {"max_running": (5, 4)}


def made(case: Case) -> Decision:
    world = World(
        "c1",
        NOW,
        known=frozenset(case.known),
        unreadable=frozenset(case.unreadable),
        gone=frozenset(case.gone),
        namespaces=case.namespaces,
        former=frozenset({"c0"}),
    )
    return decide("k", case.claims, case.stored, world)


def written(decision: Decision) -> tuple[str, Cause] | None:
    return (decision.write.claim.uid, decision.write.cause) if decision.write else None
