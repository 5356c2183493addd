"""Fixtures of the Postgres tests: registered claimants, each with its own connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.postgres.claimants import Claimant


@pytest.fixture
async def claimants(connect: Callable[[], Awaitable[Any]]) -> list[Claimant]:
    """Three registered workers on three connections."""
    found = [Claimant(await connect()) for _ in range(3)]
    for claimant in found:
        await claimant.register()
    return found
