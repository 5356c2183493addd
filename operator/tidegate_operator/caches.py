"""What the watch and the lists have shown of Limit and Queue objects, and which rows have to be looked at again."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tidegate_operator.resources import Kind, Resource, read_resource

TOMBSTONES: Final = 10_000
"""Uids of deleted objects that are remembered, so that a list which began earlier does not bring them back."""


class ObjectCache:
    """The newest known state of every object. Belongs to one event loop; nothing here waits.

    ``woken`` is set whenever there is something to look at, ``list_wanted`` whenever a full list may be due.
    """

    def __init__(self) -> None:
        self.woken = asyncio.Event()
        self.list_wanted = asyncio.Event()
        self.relisted = False
        self._objects: dict[str, Resource] = {}
        self._dirty: dict[Kind, set[str]] = {kind: set() for kind in Kind}
        self._touched: dict[str, int] = {}
        self._touches = 0
        self._tombs: set[str] = set()
        self._tomb_order: deque[str] = deque()

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, uid: str) -> Resource | None:
        """Return an object, None when it is not known or gone."""
        return self._objects.get(uid)

    def of(self, kind: Kind) -> list[Resource]:
        """Return every object of a kind."""
        return [each for each in self._objects.values() if each.identity.kind is kind]

    def see(self, kind: Kind, raw: Mapping[str, Any], *, deleted: bool = False, listed: bool = False) -> None:
        """Take in what the watch says of one object.

        Args:
            kind: its kind.
            raw: the object as the API server sends it.
            deleted: it is gone.
            listed: it came in the list with which a watch begins. For an object that is known already this means that
                the watch began anew, and what was deleted meanwhile was never told: ``relisted`` is set.
        """
        uid = str(raw["metadata"]["uid"])
        if deleted:
            self._bury(uid)
            self.remove(uid)
            return
        if listed and uid in self._objects:
            self.relist()
        self._put(kind, raw)

    def relist(self) -> None:
        """Ask for full lists: what the watch has told is not to be believed about what is gone."""
        self.relisted = True
        self.list_wanted.set()

    @property
    def is_dirty(self) -> bool:
        """Some row is to be looked at."""
        return any(self._dirty.values())

    def begin_list(self) -> int:
        """Return the mark to give to `replace`: what is seen later than this is newer than the list."""
        return self._touches

    def replace(self, kind: Kind, listed: Iterable[Mapping[str, Any]], mark: int, namespace: str | None = None) -> None:
        """Take in a full list of a kind, of one namespace or of all: what is not in it is gone."""
        uids = set()
        for raw in listed:
            uids.add(str(raw["metadata"]["uid"]))
            self._put(kind, raw)
        for uid, known in list(self._objects.items()):
            identity = known.identity
            if identity.kind is not kind or uid in uids or (namespace and identity.namespace != namespace):
                continue
            if self._touched.get(uid, 0) <= mark:
                self.remove(uid)

    def remove(self, uid: str) -> None:
        """Forget an object that a list did not have; its row has to be looked at. A list may err: it can come back."""
        known = self._objects.pop(uid, None)
        self._touched.pop(uid, None)
        if known is not None:
            self._mark(known)

    def mark(self, kind: Kind, rows: Iterable[str]) -> None:
        """Ask for another look at these rows."""
        self._dirty[kind].update(rows)
        self.woken.set()

    def take_dirty(self) -> dict[Kind, set[str]]:
        """Return the rows to look at, by kind, and forget them."""
        taken, self._dirty = self._dirty, {kind: set() for kind in Kind}
        return taken

    def _put(self, kind: Kind, raw: Mapping[str, Any]) -> None:
        uid = str(raw["metadata"]["uid"])
        known = self._objects.get(uid)
        if uid in self._tombs or (known is not None and _is_older(raw, known)):
            return
        found = read_resource(kind, raw, known)
        self._objects[uid] = found
        self._touches += 1
        self._touched[uid] = self._touches
        # The echo of our own status write has the generation that is known: no reason to read the database.
        if known is None or known.generation != found.generation:
            self._mark(found)
            if known is not None and known.row != found.row:
                self._mark(known)

    def _bury(self, uid: str) -> None:
        self._tombs.add(uid)
        self._tomb_order.append(uid)
        if len(self._tomb_order) > TOMBSTONES:
            self._tombs.discard(self._tomb_order.popleft())

    def _mark(self, resource: Resource) -> None:
        # an object that cannot be read is about no row, and its kind has to be looked at all the same
        self._dirty[resource.identity.kind].add(resource.row or "")
        self.woken.set()


def _is_older(raw: Mapping[str, Any], known: Resource) -> bool:
    """Tell whether what came is older than what is known; versions that are no numbers cannot be compared."""
    version = str(raw["metadata"].get("resourceVersion") or "")
    return version.isdigit() and known.version.isdigit() and int(version) < int(known.version)
