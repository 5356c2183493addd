"""What the manifests of both kinds share: strict reading, metadata, and problems that name their path.

Judged as the API server judges: unknown fields are refused, a null field counts as left out, numbers are not read
from text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from tidegate.errors import InvalidInput, InvalidManifest, ManifestProblem

API_VERSION: Final = "tidegate.dev/v1alpha1"
"""Group and version of both kinds."""

MAX_OBJECT_NAME: Final = 253
"""Most characters of a Kubernetes object's name (DNS-1123 subdomain)."""

MAX_NAMESPACE: Final = 63
"""Most characters of a namespace (DNS-1123 label)."""

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SERVER_FIELDS: Final = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "managedFields",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)


_SHOWN: Final = 60
_KEY: Final = "[key]"  # the last step of pydantic's path to a key, where the one before is the key itself
_MAPPING: Final = "must be a mapping of fields; got {got}"
_TEXT: Final = "must be text, in quotes where YAML reads it as something else; got {got}"
_RULES: Final = {
    "missing": "is required",
    "invalid_key": "is no known field; names of fields are text",
    "greater_than_equal": "must be at least {ge}; got {got}",
    "less_than_equal": "must be at most {le}; got {got}",
    "string_too_short": "must have at least {min_length} character; got {got}",
    "string_too_long": "must have at most {max_length} characters",
    "literal_error": "must be {expected}, in quotes where YAML reads it as something else; got {got}",
    "int_type": "must be an integer; got {got}",
    "bool_type": "must be true or false; got {got}",
    "string_type": _TEXT,
    "string_unicode": "must be Unicode text; it holds half of a surrogate pair",
    "model_type": _MAPPING,
    "dict_type": _MAPPING,
}


class Part(BaseModel):
    """Base of every part of a manifest: camelCase on the outside, frozen, unknown fields refused."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _null_is_left_out(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        known = {field.alias for field in cls.model_fields.values()}
        return {key: value for key, value in data.items() if value is not None or key not in known}


def _checked(pattern: str, longest: int, rule: str) -> AfterValidator:
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if len(value) > longest or not compiled.fullmatch(value):
            raise InvalidInput("name", f"must be {rule}; got {value[:longest]!r}")
        return value

    return AfterValidator(check)


ObjectName = Annotated[
    str,
    _checked(
        rf"{_LABEL}(\.{_LABEL})*",
        MAX_OBJECT_NAME,
        f"a DNS-1123 subdomain, lower-case letters, digits, - and ., at most {MAX_OBJECT_NAME} characters",
    ),
]
"""Name of a Kubernetes object."""

Namespace = Annotated[
    str,
    _checked(
        _LABEL, MAX_NAMESPACE, f"a DNS-1123 label, lower-case letters, digits and -, at most {MAX_NAMESPACE} characters"
    ),
]
"""Name of a Kubernetes namespace."""


class Metadata(Part):
    """The part of an object's metadata that people write; what the API server adds is accepted and ignored."""

    name: ObjectName
    namespace: Namespace | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _without_server_fields(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        return {key: value for key, value in data.items() if key not in _SERVER_FIELDS}


class Manifest(Part):
    """What both kinds have around their ``spec``. A ``status``, as in the output of kubectl, is ignored."""

    api_version: Literal["tidegate.dev/v1alpha1"]
    metadata: Metadata
    status: Annotated[None, BeforeValidator(lambda _: None)] = Field(default=None, exclude=True, repr=False)


def problem(rule: str, *path: str) -> InvalidManifest:
    """An error for a rule over several fields; ``path`` leads on from the part whose validator raises it."""
    return InvalidManifest([ManifestProblem(path, rule)])


def problems_of(error: ValidationError, kind: type[Manifest]) -> InvalidManifest:
    """Pydantic's error in the words of this project, one problem for each path."""
    found: list[ManifestProblem] = []
    for detail in error.errors(include_url=False):
        cause = detail.get("ctx", {}).get("error")
        path = tuple(step for step in detail["loc"] if step != _KEY)
        if isinstance(cause, InvalidManifest):
            found += [ManifestProblem((*path, *inner.path), inner.rule) for inner in cause.problems]
        else:
            rule = cause.rule if isinstance(cause, InvalidInput) else _rule(detail, kind)
            found.append(ManifestProblem(path, rule))
    return InvalidManifest(found)


def _rule(detail: ErrorDetails, kind: type[Manifest]) -> str:
    if detail["type"] == "extra_forbidden":
        return _unknown(detail["loc"], kind)
    template = _RULES.get(detail["type"], "is refused: {msg}")
    return template.format(**detail.get("ctx", {}), got=_shown(detail["input"]), msg=detail["msg"])


def _unknown(path: tuple[str | int, ...], kind: type[Manifest]) -> str:
    part: Any = kind
    for step in path[:-1]:
        field = next((field for field in part.model_fields.values() if field.alias == step), None)
        part = _model_in(field.annotation) if field else None
    known = sorted(field.alias for field in part.model_fields.values() if field.alias) if part else []
    nearest = get_close_matches(str(path[-1]), known, n=1)
    if nearest:
        return f"is no known field; did you mean {nearest[0]}?"
    return f"is no known field; known here: {', '.join(known)}"


def _model_in(annotation: Any) -> Any:
    candidates = [annotation, *getattr(annotation, "__args__", ())]
    return next((item for item in candidates if isinstance(item, type) and issubclass(item, BaseModel)), None)


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return json.dumps(value) if value is None or isinstance(value, bool) else repr(value)[:_SHOWN]
