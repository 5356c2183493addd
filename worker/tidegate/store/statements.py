"""The SQL that Python sends: one statement a file, named like the function that sends it."""

from functools import cache
from importlib.resources import files


@cache
def statement(name: str) -> str:
    """Return the text of ``store/sql/<name>.sql``.

    Raises:
        FileNotFoundError: no statement of this name is shipped.
    """
    return (files("tidegate.store") / "sql" / f"{name}.sql").read_text(encoding="utf-8")
