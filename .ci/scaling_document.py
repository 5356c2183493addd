"""The table of docs/scaling.md, from the simulation, which gives the same figures each time; ``write`` or ``check``."""

import sys
from pathlib import Path

from generated import ROOT, run

# last, so that no folder of the repository hides a module of Python
sys.path.append(str(ROOT))

from bench.scaling.tables import document

DOCUMENT = ROOT / "docs" / "scaling.md"


def files() -> dict[Path, str]:
    """Return the document with today's table in it."""
    return {DOCUMENT: document(DOCUMENT.read_text(encoding="utf-8"))}


if __name__ == "__main__":
    sys.exit(run(files))
