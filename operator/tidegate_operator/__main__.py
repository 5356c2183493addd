"""``python -m tidegate_operator``."""

import sys

from tidegate.cli.exits import ExitCode
from tidegate.cli.printing import complain
from tidegate.cli.streams import replace_closed_streams

EXTRA = ("aiohttp", "kopf", "kubernetes")
"""What the extra ``operator`` brings: the wheel holds the operator's code for everybody, and these for nobody."""

if __name__ == "__main__":
    replace_closed_streams()
    try:
        from tidegate_operator.commands import main
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        complain(f'the operator needs {error.name}, which is not installed; run: pip install "tidegate[operator]"')
        sys.exit(ExitCode.USAGE)
    main()
