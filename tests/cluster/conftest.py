"""A real cluster for the tests: whichever one `make test-cluster` hands over. Without it, nothing here is collected.

Each test gets a namespace of its own; the resource definitions are those of ``crds/``, applied once.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.cluster.api_relays import ApiRelay, api_relay
from tests.cluster.api_servers import CRDS, ApiServer
from tests.cluster.databases import ClusterPostgres, cluster_postgres
from tests.cluster.installations import Installation
from tests.cluster.kubectls import Kubectl
from tests.conftest import quick_folder
from tidegate.audit.figures import Figure, write_figures

IS_CALLED_FOR = bool(os.environ.get("TIDEGATE_TEST_MACHINE"))
"""Address of this machine as pods see it, which says at once that there is a cluster to test on."""

REPORT = Path(__file__).resolve().parents[2] / "build" / "cluster" / "figures.json"

FIGURES = pytest.StashKey[list[Figure]]()

collect_ignore_glob = [] if IS_CALLED_FOR else ["test_*.py"]


def pytest_report_header() -> str:
    if not IS_CALLED_FOR:
        return "cluster: none (make test-cluster)"
    server = ["kubectl", "config", "view", "--minify", "--output=jsonpath={.clusters[0].cluster.server}"]
    return f"cluster: {subprocess.run(server, capture_output=True, text=True, check=False).stdout}"


def pytest_configure(config: pytest.Config) -> None:
    config.stash[FIGURES] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    figures = config.stash[FIGURES]
    if figures:
        write_figures(REPORT, figures)
        terminalreporter.section("figures")
        for each in figures:
            holds = "" if each.holds else ", which does not hold"
            bar = f"{each.sense} {each.bar:g}"
            terminalreporter.line(f"{each.name}: {each.value:g} {each.unit} ({bar}{holds}; {each.samples} samples)")


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> list[Figure]:
    """What tests have measured: shown at the end and written to build/cluster. Times are reported, not asserted."""
    return request.config.stash[FIGURES]


@pytest.fixture(scope="session")
def administrator() -> Kubectl:
    """A kubectl that may do everything, in the namespace ``default``; the definitions are in force."""
    kubectl = Kubectl("default")
    define(kubectl)
    return kubectl


def define(kubectl: Kubectl) -> None:
    """Put today's definitions in force."""
    kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
    kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(CRDS))


@pytest.fixture(scope="session")
def api_server(administrator: Kubectl) -> Iterator[ApiServer]:
    """The API server without kubectl's own judgement before it."""
    with ApiServer.by_proxy() as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[ClusterPostgres]:
    """A server that pods reach, on one database; a test that stops it starts it again."""
    with cluster_postgres(quick_folder()) as server:
        yield server


@contextmanager
def new_namespace(administrator: Kubectl) -> Iterator[Kubectl]:
    name = f"test-{uuid4().hex[:12]}"
    administrator("create", "namespace", name)
    try:
        yield Kubectl(name)
    finally:
        administrator("delete", "namespace", name, "--wait=false")


@pytest.fixture
def kubectl(administrator: Kubectl) -> Iterator[Kubectl]:
    """A kubectl that works in a namespace for this test alone."""
    with new_namespace(administrator) as kubectl:
        yield kubectl


@pytest.fixture
def pods_database(postgres: ClusterPostgres) -> str:
    """URL of a new database with today's schema, for this test's pods; it goes with the server."""
    return postgres.new_database()


@pytest.fixture
def observer(pods_database: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection to the database of this test's pods, in autocommit."""
    with psycopg.connect(pods_database, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def installation(administrator: Kubectl, postgres: ClusterPostgres) -> Iterator[Installation]:
    """An operator for the tests of a module; each takes keys and queues of its own."""
    with new_namespace(administrator) as kubectl:
        yield Installation(kubectl, postgres.new_database())


@pytest.fixture(scope="module")
def relay() -> Iterator[ApiRelay]:
    """A way to the API server that a test commands."""
    with api_relay() as relay:
        yield relay


@pytest.fixture(scope="module")
def relayed(administrator: Kubectl, postgres: ClusterPostgres, relay: ApiRelay) -> Iterator[Installation]:
    """An operator, for the tests of a module, whose every request to the API server passes the relay."""
    with new_namespace(administrator) as kubectl:
        kubectl("create", "secret", "generic", "relay", f"--from-literal=config={relay.kubeconfig()}")
        yield Installation(
            kubectl,
            postgres.new_database(),
            extraEnv=[{"name": "KUBECONFIG", "value": "/etc/relay/config"}],
            extraVolumes=[{"name": "relay", "secret": {"secretName": "relay"}}],
            extraVolumeMounts=[{"name": "relay", "mountPath": "/etc/relay", "readOnly": True}],
            sweepAMinute=1_000,
            # the relay's port is any
            networkPolicy={"enabled": False},
        )
