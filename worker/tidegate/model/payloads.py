"""Payloads and headers: strict JSON, checked before anything is sent.

What Postgres cannot keep in ``jsonb`` (NUL, lone surrogates, NaN, Infinity) and what would hurt a reader (depth, size)
is refused at enqueue. An error holds the JSON path of the bad spot, never a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import Enum
from math import isfinite
from typing import Final

from pydantic_core import to_jsonable_python

from tidegate.errors import InvalidJob, InvalidPayload
from tidegate.model.defaults import MAX_HEADERS_BYTES, MAX_PAYLOAD_BYTES, MAX_PAYLOAD_DEPTH

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SHOWN_KEY: Final = 40


def serialise_payload(args: Mapping[str, object], max_bytes: int = MAX_PAYLOAD_BYTES) -> str:
    """Arguments of a job as JSON text of at most ``max_bytes`` bytes of UTF-8; raises ``InvalidPayload``.

    Values that JSON has no word for (datetime, UUID, Decimal, sets, dataclasses, pydantic models) are written as
    pydantic writes them, so the actor's signature reads them back. Mappings must have text keys. Separators are those
    of Postgres, so that both sides count the same bytes.
    """
    text = _dump(_plain(args, "$", 1), "$")
    size = len(text.encode())
    if size > max_bytes:
        raise InvalidPayload(
            "payload",
            f"must have at most {max_bytes} bytes as JSON; this one has {size}. Store the bulk elsewhere and pass a"
            " reference, or raise App(max_payload_bytes=)",
        )
    return text


def serialise_headers(headers: Mapping[str, str]) -> str:
    """Headers of a job as JSON text of at most 8 KiB; raises ``InvalidJob`` for what is no storable text."""
    for name, value in headers.items():
        for part, what in ((name, "name"), (value, "value")):
            if not isinstance(part, str):
                raise InvalidJob("headers", f"must map text to text; a {what} is {type(part).__name__}")
            if problem := _text_problem(part):
                raise InvalidJob("headers", f"must be text that Postgres can store; a {what} {problem}")
    text = json.dumps(dict(headers), ensure_ascii=False)
    size = len(text.encode())
    if size > MAX_HEADERS_BYTES:
        raise InvalidJob("headers", f"must have at most {MAX_HEADERS_BYTES} bytes as JSON; these have {size}")
    return text


def _plain(value: object, path: str, depth: int) -> object:
    """The value in JSON's own types, checked on the way down; ``depth`` is the level that a container here has."""
    if isinstance(value, Enum):
        value = _converted(value, path)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        if not isfinite(value):
            raise InvalidPayload(path, "is NaN or infinite, which JSON cannot hold; send None or text instead")
        return value
    if isinstance(value, str):
        if problem := _text_problem(value):
            raise InvalidPayload(path, f"{problem}; remove it, or send bytes as base64")
        return value
    if isinstance(value, Mapping):
        _check_depth(path, depth)
        return {_key(key, path): _plain(item, _step(path, key), depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        _check_depth(path, depth)
        return [_plain(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
    return _plain(_converted(value, path), path, depth)


def _converted(value: object, path: str) -> object:
    try:
        converted: object = to_jsonable_python(value)
    except (ValueError, TypeError, RecursionError):
        # pydantic quotes the value; the cause is cut off so that no log shows it
        raise InvalidPayload(
            path,
            f"is a {type(value).__name__} that pydantic cannot write as JSON; send plain values or a pydantic model",
        ) from None
    return converted


def _key(key: object, path: str) -> str:
    if not isinstance(key, str):
        raise InvalidPayload(path, f"has a key of type {type(key).__name__}; keys must be text")
    if problem := _text_problem(key):
        raise InvalidPayload(path, f"has a key that {problem}; remove it")
    return str(key)


def _step(path: str, key: str) -> str:
    if _PLAIN_KEY.fullmatch(key):
        return f"{path}.{key}"
    shown = key if len(key) <= _SHOWN_KEY else f"{key[:_SHOWN_KEY]}..."
    return f"{path}[{json.dumps(shown)}]"


def _check_depth(path: str, depth: int) -> None:
    if depth > MAX_PAYLOAD_DEPTH:
        raise InvalidPayload(path, f"is nested deeper than {MAX_PAYLOAD_DEPTH} levels; flatten it or send it as text")


def _text_problem(text: str) -> str:
    if "\0" in text:
        return "holds a NUL character, which Postgres cannot store"
    if _SURROGATE.search(text):
        return "holds half of a surrogate pair, which UTF-8 cannot hold"
    return ""


def _dump(value: object, path: str) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise InvalidPayload(path, "holds an integer of thousands of digits; send it as text") from None
