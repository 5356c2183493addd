"""Options that several commands share, so that each has one name, one variable and one help text."""

from typing import Annotated

import typer

from tidegate.cli.printing import OutputFormat

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        envvar="TIDEGATE_DATABASE_URL",
        metavar="URL",
        help="Where the jobs are: postgresql://user@host:5432/name.",
    ),
]
"""The database; `tidegate.cli.running` says what to type when it is missing."""

Output = Annotated[
    OutputFormat,
    typer.Option("--output", "-o", envvar="TIDEGATE_OUTPUT", help="A table for people, or json or yaml for programs."),
]
"""How a listing is printed."""

Force = Annotated[
    bool,
    typer.Option("--force", help="Change it although a Kubernetes object owns it; the operator puts it back."),
]
"""Overrule the refusal of `tidegate.errors.ObjectOwned`."""
