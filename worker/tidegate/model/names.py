"""The one rule for keys and names: limit keys, group keys, queue names, actor names and job keys.

1 to 200 code points, no control character, no blank at either end. Python, pydantic, SQL, the CLI and the API server
judge by the same pattern; the shared table of examples holds them to it.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from tidegate.errors import InvalidName

NAME_PATTERN: Final = r"^[^\x00-\x20\x7f]([^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?$"
"""The rule, to be matched whole: Python's ``$`` also matches before a last line feed, so use ``fullmatch``."""

MAX_NAME: Final = 200
"""Most code points of a name; bytes do not count."""

_NAME: Final = re.compile(NAME_PATTERN)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_BLANK: Final = " "


def check_name(value: object, field: str) -> str:
    """Return the value when it is a legal name, else raise ``InvalidName`` with the field and the broken rule."""
    if not isinstance(value, str):
        raise InvalidName(field, f"must be text; got {type(value).__name__}")
    if not value:
        raise InvalidName(field, f"must not be empty; give 1 to {MAX_NAME} characters")
    if len(value) > MAX_NAME:
        raise InvalidName(field, f"must have at most {MAX_NAME} characters; this one has {len(value)}, shorten it")
    if _SURROGATE.search(value):
        raise InvalidName(field, "must be Unicode text; it holds half of a surrogate pair, decode it first")
    if value[0] == _BLANK or value[-1] == _BLANK:
        raise InvalidName(field, "must not begin or end with a blank; strip it")
    if not _NAME.fullmatch(value):
        raise InvalidName(field, "must not hold control characters (line feed, tab, NUL, ...); remove them")
    return value


def check_key(value: object, field: str) -> str:
    """Like ``check_name`` for a job's own ``limit_key`` and ``group_key``, where empty text is legal and means none."""
    return "" if value == "" else check_name(value, field)


Name = Annotated[
    str,
    AfterValidator(lambda value: check_name(value, "name")),
    Field(json_schema_extra={"minLength": 1, "maxLength": MAX_NAME, "pattern": NAME_PATTERN}),
]
"""A name as a pydantic field."""
