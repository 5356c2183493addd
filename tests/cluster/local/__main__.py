"""A cluster to test on.

    python -m tests.cluster.local up | down | images | test FLAGS... | exec COMMAND... | postgres | shell | logs
    python -m tests.cluster.local stop-api-server | start-api-server

``up`` takes kind where Docker runs, and builds a node from Go modules elsewhere. ``images`` builds the project's images
where their sources changed, and loads them. ``exec`` runs a command that can reach the cluster and its pods: with its
kubeconfig, its programs first on the path and, where it has one, in its network. ``test`` runs pytest in that way, or
on the cluster that KUBECONFIG names where none of ours is up. ``postgres`` runs a server that pods reach, until Ctrl-C,
and prints its URL. ``shell`` does all of it for somebody who tries things out: the images are there, kubectl, helm and
tidegate are on the path, a Postgres that pods reach is TIDEGATE_DATABASE_URL until the shell ends. ``logs`` shows the
last lines of every part. ``stop-api-server`` stops this one part of a node that was built here.
"""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tests.cluster.local import images, kind_clusters, nodes
from tests.cluster.local.places import NODE_ADDRESS, STATE
from tests.cluster.local.processes import environment, inside

LAST_LINES = 10


def _by_kind() -> bool:
    mark = STATE / "by-kind"
    return mark.exists()


def up() -> None:
    """Bring the cluster up and say how to use it."""
    if kind_clusters.can_run():
        kind_clusters.up()
        (STATE / "by-kind").touch()
    else:
        if os.geteuid() != 0:
            raise SystemExit(
                "needs root for network and containers, or Docker and kind; or name a cluster by KUBECONFIG"
            )
        nodes.up()
    print(f"the cluster is up; use it by: {sys.executable} -m tests.cluster.local exec kubectl get nodes")


def down() -> None:
    """Remove the cluster; what was built stays for the next one."""
    if _by_kind():
        kind_clusters.down()
        shutil.rmtree(STATE)
    else:
        nodes.down()


def provide_images() -> None:
    """Build the project's images, where their sources changed, and make them known to the cluster."""
    images.provide(kind_clusters.load if _by_kind() else nodes.load, from_registry=_by_kind())


def execute(command: list[str]) -> None:
    """Become the command."""
    if not STATE.exists():
        raise SystemExit("no cluster is up: make cluster-up")
    address = kind_clusters.machine_address() if _by_kind() else NODE_ADDRESS
    _become(command if _by_kind() else inside(command), {**environment(), "TIDEGATE_TEST_MACHINE": address})


def shell() -> None:
    """Become a shell in which everything is at hand."""
    provide_images()
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    execute([sys.executable, "-m", "tests.cluster.databases", os.environ.get("SHELL") or "bash"])


def test(flags: list[str]) -> None:
    """Become pytest on ``tests/cluster``."""
    # the paths, unless the flags name some of their own
    paths = [] if any(flag.startswith("tests/") for flag in flags) else ["tests/cluster"]
    command = [sys.executable, "-m", "pytest", *paths, *flags]
    if STATE.exists():
        provide_images()
        execute(command)
    if not os.environ.get("KUBECONFIG"):
        raise SystemExit("no cluster to test on: make cluster-up, or name one by KUBECONFIG")
    _become(command, {"TIDEGATE_TEST_MACHINE": _own_address(), **os.environ})


def _own_address() -> str:
    """Address of this machine on the way to the API server, which pods are taken to reach it by."""
    asked = ["kubectl", "config", "view", "--minify", "--output=jsonpath={.clusters[0].cluster.server}"]
    server = urlsplit(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # nothing is sent: it only asks for the route
        probe.connect((server.hostname, server.port or 443))
        return str(probe.getsockname()[0])


def _become(command: list[str], variables: dict[str, str]) -> None:
    os.execvpe(command[0], command, variables)  # noqa: S606 - no shell is meant


def logs() -> None:
    """Show the last lines of every part's log."""
    for log in sorted((STATE / "logs").glob("*.log")):
        lines = log.read_text(errors="replace").splitlines()[-LAST_LINES:]
        print(f"==> {log.stem}", *lines, "", sep="\n")


def postgres() -> None:
    """Become a server that pods reach."""
    execute([sys.executable, "-m", "tests.cluster.databases"])


COMMANDS: Final[Mapping[str, Callable[[], None]]] = {
    "up": up,
    "down": down,
    "images": provide_images,
    "postgres": postgres,
    "shell": shell,
    "logs": logs,
    "stop-api-server": nodes.stop_api_server,
    "start-api-server": nodes.start_api_server,
}


def main(arguments: list[str]) -> None:
    """Run the command named first."""
    match arguments:
        case [name] if name in COMMANDS:
            COMMANDS[name]()
        case ["test", *flags]:
            test(flags)
        case ["exec", *command] if command:
            execute(command)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
