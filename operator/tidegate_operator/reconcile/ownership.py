"""Which object decides about a row, for both kinds: the one rule that limits and queues share.

The recorded owner wins, else the oldest object. An object of the recorded name with a new uid is the same one,
replaced: it takes the row over at once, in one update, so that a replace never opens a limit. An owner that is gone is
succeeded once the API server has confirmed it. Rows of another cluster, or of a namespace that nobody watches, are
never touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from tidegate.model.ownership import HeldRow, Ownership


class Cause(StrEnum):
    """Why a row is written."""

    CREATED = "created"
    """There was no such row, or it limited nothing."""
    CHANGED = "changed"
    """The object has another generation than the one that stands in the row."""
    ADOPTED = "adopted"
    """The row was made by hand."""
    REPLACED = "replaced"
    """The object was deleted and made anew under its name."""
    SUCCEEDED = "succeeded"
    """The owner is gone, and this object asks for the same row."""
    DRIFTED = "drifted"
    """Somebody changed a row that this object owns."""
    MOVED = "moved"
    """The row is marked with an earlier id of this cluster."""
    RETURNED = "returned"
    """The row was marked as orphaned, and the object is there."""


@dataclass(frozen=True)
class Claim:
    """What one object asks of its row: ``fields`` of the policy or the queue; ``allowed`` is the namespace's right.

    ``fresh`` says that the object was just read from the API server, so that a row with a later generation is not the
    work of a later leader but of a cluster that was restored from a backup.
    """

    uid: str
    namespace: str
    name: str
    created_at: str
    generation: int
    row: str
    fields: Mapping[str, Any]
    grace: timedelta
    retain: bool = False
    allowed: bool = True
    fresh: bool = False

    def ownership(self, cluster: str) -> Ownership:
        """What the row says of this object as its owner."""
        return Ownership(
            cluster=cluster,
            namespace=self.namespace,
            name=self.name,
            uid=self.uid,
            generation=self.generation,
            grace=self.grace,
            retain=self.retain,
        )


@dataclass(frozen=True)
class World:
    """What the decisions rest on beside claims and rows.

    Args:
        cluster: our cluster id.
        former: ids that were ours before.
        now: the database's time.
        known: uids of every object that was seen and is not known to be gone.
        unreadable: those of them that this release cannot read; what they wrote before stays in force.
        gone: uids whose absence the API server confirmed.
        namespaces: those that are watched; None for all.
    """

    cluster: str
    now: datetime
    known: frozenset[str] = frozenset()
    unreadable: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    namespaces: frozenset[str] | None = None
    former: frozenset[str] = frozenset()

    def watches(self, owner: Ownership) -> bool:
        """Tell whether the owner is an object that we would see."""
        ours = owner.cluster == self.cluster or owner.cluster in self.former
        return ours and (self.namespaces is None or owner.namespace in self.namespaces)


@dataclass(frozen=True)
class RowWrite:
    """One row to write: for whom, over which owner, and why.

    ``drifted`` has the fields that somebody changed, each as it stands and as the object has it.
    """

    claim: Claim
    expected: Ownership | None
    owner: Ownership
    cause: Cause
    drifted: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """What is to happen to one row, and what each object about it is to hear.

    ``settled`` are the uids that own a row which is as it should be; ``conflicts`` maps a uid to the owner that keeps
    it from the row; ``refused`` are uids whose namespace may not own the row; ``stale`` are uids seen in an older
    generation than the row has. ``orphan`` is the owner, marked, of a row whose object is gone; ``waits`` tells until
    when an orphan is kept, ``due`` is one whose grace is over; ``ask`` is an owner whose absence has to be confirmed
    before somebody succeeds it.
    """

    row: str
    write: RowWrite | None = None
    settled: tuple[str, ...] = ()
    conflicts: Mapping[str, Ownership] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    orphan: Ownership | None = None
    waits: datetime | None = None
    due: Ownership | None = None
    ask: Ownership | None = None


def decide(row: str, claims: Iterable[Claim], held: HeldRow | None, world: World) -> Decision:
    """Decide about one row; every claim of it gets exactly one answer."""
    given = sorted(claims, key=lambda each: (each.created_at, each.namespace, each.name, each.uid))
    allowed = [each for each in given if each.allowed]
    refused = tuple(each.uid for each in given if not each.allowed)
    owner = held.owner if held else None
    if held is None or owner is None:
        return replace(_first(row, allowed, held, world), refused=refused)
    if not world.watches(owner):
        return Decision(row, conflicts={each.uid: owner for each in allowed}, refused=refused)
    return replace(_Owned(row, allowed, held, owner, world).decision(), refused=refused)


def _first(row: str, claims: Sequence[Claim], held: HeldRow | None, world: World) -> Decision:
    if not claims:
        return Decision(row)
    winner, *others = claims
    cause = Cause.ADOPTED if held is not None and held.declared else Cause.CREATED
    new = winner.ownership(world.cluster)
    return Decision(row, write=RowWrite(winner, None, new, cause), conflicts={each.uid: new for each in others})


@dataclass(frozen=True)
class _Owned:
    """A row that an object of ours owns, and who asks for it."""

    row: str
    claims: Sequence[Claim]
    held: HeldRow
    owner: Ownership
    world: World

    def decision(self) -> Decision:
        owner, world = self.owner, self.world
        holder = next((each for each in self.claims if each.uid == owner.uid), None)
        if holder is not None:
            return self._kept(holder)
        at = (owner.namespace, owner.name)
        heir = next((each for each in self.claims if (each.namespace, each.name) == at), None)
        if heir is not None:
            return self._handed_over(heir, Cause.REPLACED)
        if owner.uid in world.known and owner.uid not in world.gone:
            # It is there and asks for another row, or may not have this one, or this release cannot read it. What it
            # wrote stays in force until an object that may have the row asks for it.
            if not self.claims or owner.uid in world.unreadable:
                return Decision(self.row, conflicts=self._conflicts(owner))
            return self._handed_over(self.claims[0], Cause.SUCCEEDED)
        if not self.claims:
            return self._orphaned()
        if owner.uid in world.gone:
            return self._handed_over(self.claims[0], Cause.SUCCEEDED)
        return Decision(self.row, conflicts=self._conflicts(owner), ask=owner)

    def _kept(self, holder: Claim) -> Decision:
        owner, conflicts = self.owner, self._conflicts(self.owner, but=holder.uid)
        if owner.generation > holder.generation and not holder.fresh:
            return Decision(self.row, conflicts=conflicts, stale=(holder.uid,))
        new = holder.ownership(self.world.cluster)
        stored = self.held.fields
        differs = {
            name: (stored.get(name), value) for name, value in holder.fields.items() if stored.get(name) != value
        }
        if owner == new and not differs:
            return Decision(self.row, settled=(holder.uid,), conflicts=conflicts)
        if owner.generation != holder.generation:
            write = RowWrite(holder, owner, new, Cause.CHANGED)
        elif owner.cluster != new.cluster:
            write = RowWrite(holder, owner, new, Cause.MOVED)
        elif differs:
            write = RowWrite(holder, owner, new, Cause.DRIFTED, drifted=differs)
        else:
            write = RowWrite(holder, owner, new, Cause.RETURNED)
        return Decision(self.row, write=write, conflicts=conflicts)

    def _handed_over(self, heir: Claim, cause: Cause) -> Decision:
        new = heir.ownership(self.world.cluster)
        write = RowWrite(heir, self.owner, new, cause)
        return Decision(self.row, write=write, conflicts=self._conflicts(new, but=heir.uid))

    def _orphaned(self) -> Decision:
        owner, now = self.owner, self.world.now
        if owner.ends_at is None:
            return Decision(self.row, orphan=owner.model_copy(update={"orphaned_at": now}))
        if owner.ends_at > now:
            return Decision(self.row, waits=owner.ends_at)
        return Decision(self.row, due=owner)

    def _conflicts(self, owner: Ownership, but: str = "") -> dict[str, Ownership]:
        return {each.uid: owner for each in self.claims if each.uid != but}
