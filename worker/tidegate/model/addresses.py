"""Addresses to listen on, as people write them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tidegate.errors import ConfigurationError

_FORM: Final = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[^\[\]:\s]*)):(?P<port>[0-9]{1,5})")


class Address(NamedTuple):
    """Host and port; the host 0.0.0.0 is every address of the machine."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: object, field: str) -> Address:
    """Return the address that a text such as ``127.0.0.1:8080``, ``[::1]:8080`` or ``:8080`` names.

    Raises:
        ConfigurationError: it has another form; names ``field``.
    """
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None or int(found["port"]) > 65_535:
        raise ConfigurationError(
            f"{field} must be HOST:PORT, such as 127.0.0.1:8080, or :8080 for every address; got {text!r}"
        )
    return Address(found["six"] or found["host"] or "0.0.0.0", int(found["port"]))  # noqa: S104 - asked for in so many words
