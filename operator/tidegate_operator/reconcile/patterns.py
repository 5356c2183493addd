"""Which limit keys a namespace may own: without that rule any author of Limits takes any tenant's key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

EVERY_OTHER: Final = "*"
"""The entry for namespaces that have none of their own."""


class KeyPatterns:
    """Patterns by namespace, as in ``{"team-a": ["team-a-*"], "*": ["{namespace}/*"]}``.

    ``*``, ``?`` and ``[...]`` are those of the shell, ``{namespace}`` stands for the namespace's name. Without any
    entry at all, every namespace may own every key; with entries, a namespace that none of them fits may own none.
    """

    def __init__(self, entries: Mapping[str, Sequence[str]] | None = None) -> None:
        self._entries = {namespace: tuple(patterns) for namespace, patterns in (entries or {}).items()}

    def of(self, namespace: str) -> tuple[str, ...] | None:
        """Return the patterns of a namespace, None where every key is allowed."""
        if not self._entries:
            return None
        patterns = self._entries.get(namespace, self._entries.get(EVERY_OTHER, ()))
        return tuple(pattern.replace("{namespace}", namespace) for pattern in patterns)

    def allows(self, namespace: str, key: str) -> bool:
        """Tell whether an object of this namespace may own the key."""
        patterns = self.of(namespace)
        return patterns is None or any(fnmatchcase(key, pattern) for pattern in patterns)

    def explain(self, namespace: str, key: str) -> str:
        """Return the sentence for an object whose key is refused."""
        patterns = self.of(namespace) or ()
        allowed = f"only keys like {', '.join(patterns)}" if patterns else "no key at all"
        return (
            f"namespace {namespace} may own {allowed}, and this object asks for {key}; take another key, or have the"
            " operator's keyPatterns changed"
        )
