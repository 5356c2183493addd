"""What `import tidegate` promises, and what it does not load."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tidegate
from tidegate.model.capacity import OnOversizedPayloadT, OversizedPayloadAction

ALIASES = (OnOversizedPayloadT, OversizedPayloadAction)


@pytest.mark.parametrize("name", tidegate.__all__)
def test_every_public_name_is_there(name: str) -> None:
    value = getattr(tidegate, name)
    # an alias of a union or a literal has no name of its own
    assert value in ALIASES or value.__name__ == name
    assert name in dir(tidegate)


def test_another_name_is_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Broker'"):
        tidegate.Broker  # noqa: B018


def test_importing_the_package_loads_no_driver() -> None:
    child = "import sys, tidegate; sys.exit('asyncpg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", child], check=False).returncode == 0
