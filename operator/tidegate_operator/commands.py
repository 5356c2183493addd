"""``python -m tidegate_operator run``: flags and variables into a `Config`, errors into a line and an exit code."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer

from tidegate.cli.exits import ExitCode, exit_code_of
from tidegate.cli.printing import complain
from tidegate.errors import InvalidDuration, TidegateError
from tidegate.model.durations import parse_duration
from tidegate.ports import OfficeLost
from tidegate.runtime.logs import configure_logging
from tidegate_operator.config import SWEEP_A_MINUTE, Config, read_names, read_patterns
from tidegate_operator.services import Service

app = typer.Typer(
    name="tidegate-operator",
    help="The Kubernetes operator of Tidegate: Limit and Queue objects into Postgres, live numbers into their status.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)

EXAMPLE = """Example:

\b
  python -m tidegate_operator run --database-url-file /etc/tidegate/database-url
  TIDEGATE_NAMESPACES='team-a team-b' TIDEGATE_CLUSTER_ID=eu-1 python -m tidegate_operator run --database-url-file f
"""

SERVICE_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@app.callback()
def _root() -> None:
    pass


@app.command("run", epilog=EXAMPLE)
def run_command(
    *,
    database_url_file: Annotated[
        Path | None,
        typer.Option(
            envvar="TIDEGATE_DATABASE_URL_FILE",
            metavar="FILE",
            help="File with the URL of the database, as a mounted Secret; read again when it changes.",
        ),
    ] = None,
    database_url: Annotated[
        str | None,
        typer.Option(
            envvar="TIDEGATE_DATABASE_URL",
            metavar="URL",
            help="The URL itself, where there is no file.",
            show_envvar=True,
        ),
    ] = None,
    listen_url_file: Annotated[
        Path | None,
        typer.Option(
            envvar="TIDEGATE_LISTEN_URL_FILE",
            metavar="FILE",
            help="File with another URL for notifications, where the first goes through a pooler.",
        ),
    ] = None,
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            envvar="TIDEGATE_NAMESPACES",
            metavar="NAME",
            help="Watch this namespace; repeat it. Default: the whole cluster.",
        ),
    ] = None,
    cluster_id: Annotated[
        str | None,
        typer.Option(
            envvar="TIDEGATE_CLUSTER_ID",
            metavar="ID",
            help="Marks this cluster's rows; no other cluster on the database may have it. Needed with --namespace."
            " Default: the uid of the namespace kube-system.",
        ),
    ] = None,
    former_cluster_id: Annotated[
        list[str] | None,
        typer.Option(
            envvar="TIDEGATE_FORMER_CLUSTER_IDS",
            metavar="ID",
            help="Take over rows that bear an earlier id of this cluster, which no operator may still use; repeat it.",
        ),
    ] = None,
    key_patterns: Annotated[
        str | None,
        typer.Option(
            envvar="TIDEGATE_KEY_PATTERNS",
            metavar="JSON",
            help='Limit keys that a namespace may own, as in {"team-a": ["team-a-*"], "*": ["{namespace}/*"]}.'
            " Default: every namespace, every key.",
        ),
    ] = None,
    lease_namespace: Annotated[
        str | None,
        typer.Option(
            envvar="TIDEGATE_LEASE_NAMESPACE",
            metavar="NAME",
            help="Where the leader's Lease lies. Default: the pod's own namespace, else default.",
        ),
    ] = None,
    lease_name: Annotated[
        str, typer.Option(envvar="TIDEGATE_LEASE_NAME", metavar="NAME", help="The Lease's name.")
    ] = "tidegate",
    identity: Annotated[
        str | None,
        typer.Option(envvar="TIDEGATE_POD", metavar="NAME", help="This process, as the pod's name. Default: the host."),
    ] = None,
    migrate: Annotated[
        bool,
        typer.Option(
            "--migrate/--no-migrate",
            envvar="TIDEGATE_MIGRATE",
            help="Bring the schema to this release, or wait until somebody does.",
        ),
    ] = True,
    port: Annotated[
        int, typer.Option(envvar="TIDEGATE_PORT", min=0, max=65535, help="Of /healthz, /readyz and /metrics.")
    ] = 8080,
    sweep_a_minute: Annotated[
        int,
        typer.Option(
            envvar="TIDEGATE_SWEEP_A_MINUTE",
            min=1,
            metavar="N",
            help="Rows given up within a minute at most, when their objects are gone.",
        ),
    ] = SWEEP_A_MINUTE,
    numbers_every: Annotated[
        str, typer.Option(envvar="TIDEGATE_NUMBERS_EVERY", metavar="DURATION", help="Between two looks at numbers.")
    ] = "2s",
    drift_every: Annotated[
        str,
        typer.Option(
            envvar="TIDEGATE_DRIFT_EVERY", metavar="DURATION", help="Between two comparisons of all rows and objects."
        ),
    ] = "1m",
    list_every: Annotated[
        str, typer.Option(envvar="TIDEGATE_LIST_EVERY", metavar="DURATION", help="Between two full lists of objects.")
    ] = "10m",
    log_format: Annotated[
        Literal["text", "json"], typer.Option(envvar="TIDEGATE_LOG_FORMAT", help="key=value text, or JSON.")
    ] = "text",
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        typer.Option(envvar="TIDEGATE_LOG_LEVEL", help="The least severe that is written."),
    ] = "info",
) -> None:
    """Reconcile until SIGTERM or Ctrl-C; several replicas may run, one of them leads.

    In a pod the service account says where the API server is; elsewhere KUBECONFIG does.
    """
    config = Config(
        database_url_file=database_url_file,
        # a pod that has both means the file: the variable may come from an envFrom meant for workers
        database_url=None if database_url_file is not None else database_url,
        listen_url_file=listen_url_file,
        namespaces=read_names(namespace or ()),
        cluster_id=cluster_id or None,
        former_cluster_ids=read_names(former_cluster_id or ()),
        patterns=read_patterns(key_patterns),
        lease_namespace=lease_namespace or _own_namespace(),
        lease_name=lease_name,
        identity=identity or socket.gethostname(),
        migrate=migrate,
        port=port,
        sweep_a_minute=sweep_a_minute,
        numbers_every=_seconds("--numbers-every", numbers_every),
        drift_every=_seconds("--drift-every", drift_every),
        list_every=_seconds("--list-every", list_every),
    )
    configure_logging(log_format, log_level.upper())
    # a line of kopf for every event of every object would drown ours
    for name in ("kopf", "asyncio", "aiohttp"):
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))
    # it says every second that the API server is away; the elector and the reconciler say it once
    logging.getLogger("kopf._cogs.clients").setLevel(logging.CRITICAL)
    asyncio.run(_serve(config))


def _seconds(flag: str, text: str) -> float:
    span = parse_duration(text, flag).total_seconds()
    if span <= 0:
        raise InvalidDuration(flag, "must be more than 0")
    return span


async def _serve(config: Config) -> None:
    await Service(config).run()


def _own_namespace() -> str:
    try:
        return SERVICE_ACCOUNT_NAMESPACE.read_text(encoding="utf-8").strip()
    except OSError:
        return "default"


def main() -> NoReturn:
    """Run the command that the arguments name, and leave with its exit code."""
    try:
        code = app(prog_name="python -m tidegate_operator", standalone_mode=False)
    except typer.TyperException as error:
        complain(error.format_message(), "python -m tidegate_operator run --help")
        sys.exit(error.exit_code)
    except TidegateError as error:
        complain(str(error))
        sys.exit(exit_code_of(error))
    except OfficeLost as error:
        complain(f"{error}; give each installation a --cluster-id of its own")
        sys.exit(ExitCode.CONFLICT)
    except typer.Abort:
        sys.exit(ExitCode.INTERRUPTED)
    sys.exit(int(code or ExitCode.OK))
