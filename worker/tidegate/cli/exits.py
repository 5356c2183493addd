"""What the exit code of a command tells a script."""

from enum import IntEnum
from typing import Self

from tidegate import errors


class ExitCode(IntEnum):
    """Exit codes of every command, the same for all of them; documented in ``tidegate --help`` and docs/cli.md."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> Self:
        """Keep the sentence that the documentation prints beside the number."""
        code = int.__new__(cls, value)
        code._value_ = value
        code.meaning = meaning
        return code

    OK = 0, "done"
    FAILED = 1, "failed, or the database refused it"
    USAGE = 2, "a flag, a value or a manifest is wrong; nothing was done"
    DATABASE = 3, "the database cannot be reached"
    NOT_FOUND = 4, "no such job or queue"
    SCHEMA = 5, "the database has no schema of this release: tidegate schema migrate"
    CONFLICT = 6, "the state of the thing forbids it, or a Kubernetes object owns it"
    STALLED = 70, "a worker ended itself: its event loop or a job's code could not be stopped"
    CUT_SHORT = 75, "a worker gave running jobs back: the grace period was over, or a second signal came"
    INTERRUPTED = 130, "interrupted by Ctrl-C"
    PIPE_CLOSED = 141, "whoever read the output went away"


_CODES: tuple[tuple[type[errors.TidegateError], ExitCode], ...] = (
    (errors.SchemaOutdated, ExitCode.SCHEMA),
    (errors.DatabaseUnavailable, ExitCode.DATABASE),
    (errors.Conflict, ExitCode.CONFLICT),
    (errors.NotFound, ExitCode.NOT_FOUND),
    (errors.InvalidInput, ExitCode.USAGE),
    (errors.ConfigurationError, ExitCode.USAGE),
)


def exit_code_of(error: errors.TidegateError) -> ExitCode:
    """Return the exit code that an error of this package ends a command with."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    return ExitCode.FAILED


def describe_exit_codes() -> str:
    """Return one line for each code, as ``tidegate --help`` shows them."""
    return "\n".join(f"{code.value:>5}  {code.meaning}" for code in ExitCode)
