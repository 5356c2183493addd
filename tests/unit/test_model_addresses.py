"""Addresses to listen on."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.errors import ConfigurationError
from tidegate.model.addresses import Address, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8080", Address("127.0.0.1", 8080)),
        ("localhost:0", Address("localhost", 0)),
        (":65535", Address("0.0.0.0", 65535)),  # noqa: S104 - what it stands for
        ("[::1]:80", Address("::1", 80)),
    ],
)
def test_an_address_is_host_and_port(text: str, address: Address) -> None:
    assert parse_address(text, "health_address") == address
    assert parse_address(str(address), "health_address") == address


@pytest.mark.parametrize(
    "text", ["", "8080", "host", "host:", "host:65536", "::1:80", "a b:1", "h:1\n", "h:-1", 8080, None]
)
def test_what_is_no_address_is_refused_by_name(text: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^health_address must be HOST:PORT"):
        parse_address(text, "health_address")
