"""Rules over more than one field, in CEL, for the API server: each stands beside the validator that says it in Python.

They become ``x-kubernetes-validations`` of the resource definitions. The shared table of examples holds both to the
same verdicts.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class CelRule(NamedTuple):
    """One rule of the API server.

    Attributes:
        rule: the expression; ``self`` is the value that it stands at, ``oldSelf`` the one before an update.
        message: what is said when it is false.
        field: path from ``self`` to the field that is to blame, as in ``.scaling.mode``; None blames ``self``.
    """

    rule: str
    message: str
    field: str | None = None


def judged_by(*rules: CelRule) -> dict[str, Any]:
    """The rules as a part of a JSON schema: for ``json_schema_extra`` of a model or a field."""
    return {
        "x-kubernetes-validations": [
            {"rule": each.rule, "message": each.message, **({"fieldPath": each.field} if each.field else {})}
            for each in rules
        ]
    }


def immutable(field: str, advice: str) -> CelRule:
    """A field of ``self`` that may be neither set, changed nor removed once the object is there."""
    kept = f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
    return CelRule(kept, f"{field} is immutable; {advice}", f".{field}")
