"""Standard streams that whoever started the command has closed, as cron jobs and supervisors do."""

import os
import sys


def replace_closed_streams() -> None:
    """Put something in the place of closed standard streams, which Python leaves as None, lowest number first.

    An empty file is read for what was typed, errors go nowhere, and a result cannot be written, which the command then
    says by its exit code as it does of a full disk. Without this a connection could get the number of a closed stream.
    """
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY), encoding="utf-8")
    if sys.stdout is None:
        # opened for reading: whoever writes is told, EBADF, as if the stream were closed still
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
