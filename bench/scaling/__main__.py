"""``python -m bench.scaling write``: run the simulation and bring docs/scaling.md up to date; ``check`` compares."""

import sys
from pathlib import Path

from bench.scaling.tables import document

DOCUMENT = Path(__file__).parents[2] / "docs" / "scaling.md"


def main(arguments: list[str]) -> int:
    """Write or check; 1 where the table in the document is not that of this release."""
    if arguments not in (["write"], ["check"]):
        print("usage: python -m bench.scaling write | check", file=sys.stderr)
        return 2
    text = DOCUMENT.read_text(encoding="utf-8")
    new = document(text)
    if arguments == ["write"]:
        DOCUMENT.write_text(new, encoding="utf-8")
    elif new != text:
        print("docs/scaling.md: the simulation gives other figures now; run make generate", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
