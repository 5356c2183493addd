"""Errors as bounded text that Postgres can store."""

import re
import traceback
from types import TracebackType

MAX_ERROR = 2_000
"""Characters kept of an error's text, from its beginning."""

MAX_TRACEBACK = 8_000
"""Characters kept of a traceback, from its end, where the cause stands."""

_MAX_FRAMES = 50
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def describe(error: BaseException) -> str:
    """Return the error's class and text."""
    name = type(error).__qualname__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the text of an error is the user's code too
        text = "(its text could not be made)"
    return storable(f"{name}: {text}" if text else name)[:MAX_ERROR]


def trace(error: BaseException, *, own_frames: int = 1) -> str:
    """Return the traceback without our own ``own_frames`` outermost frames; source lines only, no values."""
    frames: TracebackType | None = error.__traceback__
    for _ in range(own_frames):
        frames = frames.tb_next if frames is not None else None
    try:
        text = "".join(traceback.format_exception(type(error), error, frames, limit=-_MAX_FRAMES))
    except Exception:  # noqa: BLE001 - formatting calls the user's __str__ and __repr__
        return ""
    return storable(text)[-MAX_TRACEBACK:]


def storable(text: str) -> str:
    """Return the text without NUL and halves of surrogate pairs, which no database in UTF-8 takes."""
    return _UNSTORABLE.sub("\ufffd", text)
