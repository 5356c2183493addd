"""``tidegate worker``: run the actors of an app."""

import asyncio
import os
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.options import DatabaseUrl
from tidegate.errors import ConfigurationError

if TYPE_CHECKING:
    from tidegate.app import App, WorkerOptions


class LogFormat(StrEnum):
    """How log records are written."""

    TEXT = "text"
    JSON = "json"


class Propagation(StrEnum):
    """Whether limits of actors bound what is claimed."""

    ON = "on"
    OFF = "off"


class LogLevel(StrEnum):
    """The least severe records that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


EXAMPLE = """Example:

\b
  tidegate worker app:app --slots 8 --fair
  TIDEGATE_QUEUES='mail video' tidegate worker app:app --log-format json
"""


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("worker", epilog=EXAMPLE)(worker_command)


def worker_command(
    context: typer.Context,
    app: Annotated[
        str, typer.Argument(metavar="APP", help="MODULE:ATTRIBUTE of the tidegate.App.", show_default=False)
    ],
    *,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            envvar="TIDEGATE_QUEUES",
            metavar="NAME",
            help="Claim from this queue; repeat it. Default: all of the app's.",
        ),
    ] = None,
    slots: Annotated[int, typer.Option(envvar="TIDEGATE_SLOTS", metavar="N", help="Jobs that run at once.")] = 10,
    fair: Annotated[
        bool | None,
        typer.Option(
            "--fair/--no-fair", envvar="TIDEGATE_FAIR", help="In fair order, or by priority. Default: the queue's."
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            envvar="TIDEGATE_WORKER_NAME", metavar="NAME", help="Shown to people. Default: host and process id."
        ),
    ] = None,
    lease: Annotated[
        str, typer.Option(envvar="TIDEGATE_LEASE", metavar="DURATION", help="Right to its jobs after a good heartbeat.")
    ] = "30s",
    heartbeat: Annotated[
        str | None,
        typer.Option(envvar="TIDEGATE_HEARTBEAT", metavar="DURATION", help="Between heartbeats. Default: lease / 6."),
    ] = None,
    poll: Annotated[
        str, typer.Option(envvar="TIDEGATE_POLL", metavar="DURATION", help="Longest wait between two looks when idle.")
    ] = "1s",
    grace: Annotated[
        str, typer.Option(envvar="TIDEGATE_GRACE", metavar="DURATION", help="For running jobs after the first signal.")
    ] = "30s",
    stall_limit: Annotated[
        str,
        typer.Option(
            envvar="TIDEGATE_STALL_LIMIT", metavar="DURATION", help="A loop that stands still so long ends it."
        ),
    ] = "2m",
    namespace: Annotated[
        str | None, typer.Option(envvar="TIDEGATE_NAMESPACE", metavar="NAME", help="Kubernetes namespace of the pod.")
    ] = None,
    pod: Annotated[str | None, typer.Option(envvar="TIDEGATE_POD", metavar="NAME", help="Name of the pod.")] = None,
    max_payload_bytes: Annotated[
        int | None,
        typer.Option(
            envvar="TIDEGATE_MAX_PAYLOAD_BYTES",
            metavar="BYTES",
            help="Payloads held at once, all together; a larger one runs alone. Default: any.",
        ),
    ] = None,
    actor_limits_propagation: Annotated[
        Propagation,
        typer.Option(
            envvar="TIDEGATE_ACTOR_LIMITS_PROPAGATION",
            help="Whether limits of actors and routers bound what is claimed; off: messages wait for them here.",
        ),
    ] = Propagation.ON,
    health_address: Annotated[
        str | None,
        typer.Option(
            envvar="TIDEGATE_HEALTH_ADDRESS",
            metavar="HOST:PORT",
            help="Answer /healthz, /readyz and /metrics there; :8080 is every address. Default: nowhere.",
        ),
    ] = None,
    log_format: Annotated[
        LogFormat, typer.Option(envvar="TIDEGATE_LOG_FORMAT", help="key=value text, or JSON.")
    ] = LogFormat.TEXT,
    log_level: Annotated[
        LogLevel, typer.Option(envvar="TIDEGATE_LOG_LEVEL", help="The least severe that is written.")
    ] = LogLevel.INFO,
    database_url: DatabaseUrl = None,
) -> None:
    """Run jobs of an app until SIGTERM or Ctrl-C; running jobs then finish within the grace period.

    A second signal gives unfinished jobs back at once. APP is imported from the current directory.
    """
    from tidegate.flow.scopes import worker_limits
    from tidegate.runtime.logs import configure_logging

    options: WorkerOptions = {
        "queues": queue or None,
        "limits": worker_limits(slots=slots, max_payload_bytes=max_payload_bytes),
        "actor_limits_propagation": actor_limits_propagation.value,
        "health_address": health_address or None,
        "fair": fair,
        "lease": _read_span("--lease", lease),
        "heartbeat": _read_span("--heartbeat", heartbeat) if heartbeat else None,
        "poll": _read_span("--poll", poll),
        "grace": _read_span("--grace", grace),
        "stall_limit": _read_span("--stall-limit", stall_limit),
        "namespace": namespace,
        "pod": pod,
    }
    if name:
        options["name"] = name
    source = context.get_parameter_source("database_url")
    loaded = _load(app, database_url, insisted=source is not None and source.name == "COMMANDLINE")
    configure_logging(log_format.value, log_level.value.upper())
    raise typer.Exit(asyncio.run(loaded.run_worker(**options)))


def _load(reference: str, database_url: str | None, *, insisted: bool) -> "App":
    from tidegate.cli.app_loading import load_app
    from tidegate.store.urls import check_database_url

    if database_url:
        check_database_url(database_url)
        # Before the import: the app's own code may enqueue or read the variable while it is imported.
        os.environ["TIDEGATE_DATABASE_URL"] = database_url
    app = load_app(reference)
    if insisted and app.database_url != database_url:
        raise ConfigurationError(
            f"{reference} names another database than --database-url; leave the option out, or write App() without one"
        )
    return app


def _read_span(flag: str, text: str) -> timedelta:
    from tidegate.model.durations import parse_duration

    return parse_duration(text, flag)
