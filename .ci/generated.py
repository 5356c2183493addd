"""What every generator has in common: ``write`` makes its files, ``check`` fails when one is out of date."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

USAGE = 2


def run(make: Callable[[], Mapping[Path, str]], arguments: Sequence[str] | None = None, *, root: Path = ROOT) -> int:
    """Write or check generated files, as the arguments of the program say; return its exit code.

    Args:
        make: returns the text of each file that is generated.
        arguments: those of the program by default.
        root: below which the files lie, for messages.
    """
    match list(sys.argv[1:] if arguments is None else arguments):
        case ["write"]:
            for path, text in make().items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return 0
        case ["check"]:
            stale = [path for path, text in make().items() if not path.exists() or path.read_text("utf-8") != text]
            for path in stale:
                print(f"{path.relative_to(root)} is not what is generated today; run: make generate", file=sys.stderr)
            return 1 if stale else 0
        case _:
            print(f"usage: {Path(sys.argv[0]).name} write|check", file=sys.stderr)
            return USAGE
