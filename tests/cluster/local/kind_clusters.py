"""The same cluster by kind, where Docker runs."""

import json
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Final

from tests.cluster.local.places import ADMIN, STATE
from tests.cluster.local.processes import run, succeeds

NAME: Final = "tidegate-test"


def can_run() -> bool:
    """Whether Docker answers and kind is installed."""
    return succeeds(["docker", "info"]) and succeeds(["kind", "version"])


def up() -> None:
    """Create the cluster, or do nothing when it is there."""
    STATE.mkdir(parents=True, exist_ok=True)
    if NAME not in run(["kind", "get", "clusters"]).split():
        run(["kind", "create", "cluster", "--name", NAME, "--kubeconfig", ADMIN, "--wait", "120s"])


def down() -> None:
    """Delete the cluster."""
    run(["kind", "delete", "cluster", "--name", NAME, "--kubeconfig", ADMIN])


def load(archive: Path) -> None:
    """Make the images of an archive known to the nodes."""
    run(["kind", "load", "image-archive", archive, "--name", NAME])


def machine_address() -> str:
    """Address of this machine as pods see it: the gateway of kind's network."""
    (network,) = json.loads(run(["docker", "network", "inspect", "kind"]))
    gateways = [part.get("Gateway") or str(ip_network(part["Subnet"])[1]) for part in network["IPAM"]["Config"]]
    return next(address for address in gateways if ip_address(address).version == 4)
