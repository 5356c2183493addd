"""``python -m tests.isolation`` writes ``expected/`` by what the embedded server does; read the difference."""

import sys

from tests.conftest import running_server
from tests.isolation.operations import OPERATIONS
from tests.isolation.reviews import EXPECTED, rendered
from tests.isolation.schedules import schedules_of
from tests.isolation.stages import perform


def main() -> int:
    """Write all outputs; 1 when one breaks a rule, which no expected output may."""
    broken = 0
    EXPECTED.mkdir(exist_ok=True)
    with running_server("pg18") as server:
        played = perform(
            server, [each for operation in OPERATIONS for each in schedules_of(operation, every_begin=False)]
        )
    for operation in OPERATIONS:
        mine = [each for each in played if each.outcome.pair.first is operation]
        (EXPECTED / f"{operation.name}.txt").write_text(rendered([each.outcome for each in mine]), encoding="utf-8")
        for each in mine:
            for breach in each.breaches:
                sys.stderr.write(f"{each.outcome.pair.name}, {' '.join(each.outcome.steps)}: {breach}\n")
                broken = 1
    return broken


if __name__ == "__main__":
    sys.exit(main())
