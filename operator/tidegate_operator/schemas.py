"""From a pydantic model to the structural schema that a custom resource definition takes.

Pydantic writes JSON Schema; the API server takes a narrow dialect of it, without references, without unions and with a
type everywhere. Whatever cannot be said in that dialect is an error here, never a schema that means something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from tidegate.model.durations import format_duration

Schema = dict[str, Any]
"""One schema, as it is written in YAML."""

INT32: Final = 2**31 - 1
"""Highest number of ``format: int32``."""

_KEPT: Final = (
    "description",
    "type",
    "format",
    "enum",
    "default",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "maxItems",
    "pattern",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-validations",
)
"""What is taken over as it is, in the order in which it is written."""

_REWRITTEN: Final = ("$ref", "anyOf", "const", "properties", "required", "additionalProperties", "items")
_DROPPED: Final = ("title", "$defs")


class NotStructural(Exception):  # noqa: N818 - says what the model is
    """A model says something that a structural schema cannot; the message gives the path and what."""


class _Generator(GenerateJsonSchema):
    """Pydantic's own, but that the default of a duration is written as people write durations."""

    def encode_default(self, dft: Any) -> Any:
        return format_duration(dft) if isinstance(dft, timedelta) else super().encode_default(dft)


def structural_schema(model: type[BaseModel]) -> Schema:
    """The structural schema of objects that the model reads.

    Raises:
        NotStructural: the model has a union, a type or a keyword that is not known here, or a field without a
            description, for which ``kubectl explain`` would have nothing to say.
    """
    whole = model.model_json_schema(by_alias=True, schema_generator=_Generator)
    return _Rewriter(whole.get("$defs", {})).schema(whole, model.__name__)


def validations(schema: Mapping[str, Any]) -> list[Schema]:
    """The rules in CEL of a schema; pydantic sorts keys, here each rule comes before what is said when it is broken."""
    written = ("rule", "message", "fieldPath")
    return [{key: rule[key] for key in written if key in rule} for rule in schema["x-kubernetes-validations"]]


class _Rewriter:
    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions

    def schema(self, given: Schema, path: str) -> Schema:
        given = self._resolved(given, path)
        unknown = given.keys() - {*_KEPT, *_REWRITTEN, *_DROPPED}
        if unknown:
            raise NotStructural(f"{path}: {', '.join(sorted(unknown))} cannot be said in a structural schema")
        if not given.get("description"):
            raise NotStructural(f"{path}: has no description")
        return self._rewritten(given, path)

    def _rewritten(self, given: Schema, path: str) -> Schema:
        if "const" in given:
            given = {**given, "enum": [given["const"]]}
        made: Schema = {keyword: given[keyword] for keyword in _KEPT if keyword in given}
        if "x-kubernetes-validations" in made:
            made["x-kubernetes-validations"] = validations(given)
        if "description" in made:
            made["description"] = " ".join(made["description"].replace("``", "").split())
        if "default" in made and made["default"] is None:
            del made["default"]
        match made.get("type"):
            case "object":
                self._object(made, given, path)
            case "array":
                made["items"] = self._rewritten(self._resolved(given["items"], f"{path}[]"), f"{path}[]")
            case "integer":
                made["format"] = "int32" if _fits_in_32_bits(made) else "int64"
            case "string" | "boolean":
                pass
            case other:
                raise NotStructural(f"{path}: type {other} has no structural schema")
        return made

    def _object(self, made: Schema, given: Schema, path: str) -> None:
        if "properties" not in given:
            raise NotStructural(f"{path}: an object without fields takes anything")
        if given.get("required"):
            made["required"] = list(given["required"])
        made["properties"] = {name: self.schema(part, f"{path}.{name}") for name, part in given["properties"].items()}

    def _resolved(self, given: Schema, path: str) -> Schema:
        """Without references and without the ``null`` beside a type: the API server takes null for left out."""
        while "$ref" in given or "anyOf" in given:
            beside = {keyword: value for keyword, value in given.items() if keyword not in {"$ref", "anyOf"}}
            if "$ref" in given:
                inner = self._definitions[given["$ref"].removeprefix("#/$defs/")]
            else:
                choices = [choice for choice in given["anyOf"] if choice != {"type": "null"}]
                if len(choices) != 1:
                    raise NotStructural(f"{path}: is one of {len(choices)} types")
                inner = choices[0]
            given = {**inner, **beside}
        return given


def _fits_in_32_bits(schema: Schema) -> bool:
    return "minimum" in schema and schema["minimum"] >= -INT32 and schema.get("maximum", INT32 + 1) <= INT32
