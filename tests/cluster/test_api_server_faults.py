"""An API server that forgets, lies or stops, with the operator in the pod that the chart makes."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import psycopg
import pytest

from tests.cluster.api_relays import ApiRelay
from tests.cluster.conftest import new_namespace
from tests.cluster.installations import PODS, Installation, limit, queue
from tests.cluster.kubectls import Kubectl, KubectlError
from tests.cluster.local.places import STATE
from tests.cluster.waiting import eventually

OUTAGE = float(os.environ.get("TIDEGATE_TEST_OUTAGE", "15"))
"""Seconds without an API server: more than the 10 s after which a leader without its lease gives up."""

COMPARED = "tidegate_operator_lists_total"
"""Metric of the full lists that the operator has made and compared with its rows."""


def metric(installation: Installation, name: str) -> float:
    """Value of a metric of the operator without labels, 0 while it has none."""
    script = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8080/metrics').read().decode())"
    lines = installation.kubectl("exec", "deployment/tidegate", "--", "python3", "-c", script).splitlines()
    return next((float(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0.0)


def restarts(installation: Installation) -> int:
    pods = installation.kubectl.object("pods", PODS)["items"]
    return sum(each["restartCount"] for pod in pods for each in pod["status"]["containerStatuses"])


def caps(installation: Installation, prefix: str) -> dict[str, int]:
    found = installation.rows.caps().items()
    return {key.removeprefix(prefix): cap for key, cap in found if key.startswith(prefix)}


def test_a_watch_that_is_too_old_begins_anew(relayed: Installation, relay: ApiRelay) -> None:
    """410 Gone: what was deleted before the new list is told by nobody, and found all the same."""
    kubectl = relayed.kubectl
    kubectl.apply(
        limit("gone-kept", maxRunning=1),
        limit("gone-changed", maxRunning=1),
        limit("gone-deleted", maxRunning=1, deletionGracePeriod="0s"),
    )
    relayed.wait_for_ready("limit/gone-kept", "limit/gone-changed", "limit/gone-deleted")
    before = relay.expired_watches
    with relay.holding("GET", "/limits$", "asked") as relisting:
        relay.expire_watches("limits")
        eventually(relisting.reached.is_set, "the watch is begun anew, by a list")
        assert relay.expired_watches == before + 1
        kubectl("delete", "limits.tidegate.dev", "gone-deleted")
        kubectl.apply(limit("gone-changed", maxRunning=2), limit("gone-created", maxRunning=3))
    eventually(
        lambda: caps(relayed, "gone-") == {"kept": 1, "changed": 2, "created": 3}, "what happened meanwhile is found"
    )
    relayed.wait_for_ready("limit/gone-changed", "limit/gone-created")


def test_an_empty_list_ends_no_limit(relayed: Installation, relay: ApiRelay) -> None:
    """Lists of limits come back empty, also the one that a new watch begins with: no row is given up or even marked."""
    kubectl = relayed.kubectl
    names = [f"empty-{number}" for number in range(3)]
    kubectl.apply(*(limit(name, maxRunning=1, deletionGracePeriod="0s") for name in names), queue("empty"))
    relayed.wait_for_ready(*(f"limit/{name}" for name in names), "queue/empty")
    relayed.rows(
        "create table public.marks as select key, owner from tidegate.keys where false;"
        """create function public.mark() returns trigger language plpgsql as $$ begin
             insert into public.marks values (old.key, new.owner); return null; end $$;"""
        "create trigger marks after update or delete on tidegate.keys for each row"
        " when (starts_with(old.key, 'empty-')) execute function public.mark()"
    )
    lists, emptied = metric(relayed, COMPARED), relay.empty_lists
    relay.lists_nothing = "limits"
    try:
        relay.expire_watches("limits", "queues")
        # by the watch that begins anew; and by the reconciler, which the list of queues tells that watches began anew
        eventually(lambda: relay.empty_lists >= emptied + 2, "limits were listed anew, and there were none")
        eventually(lambda: metric(relayed, COMPARED) >= lists + 2, "and compared with the rows, twice")
    finally:
        relay.lists_nothing = ""
    assert caps(relayed, "empty-") == {"0": 1, "1": 1, "2": 1}
    assert relayed.rows("select * from public.marks") == []
    kubectl.apply(limit(names[0], maxRunning=2))
    kubectl("delete", "limits.tidegate.dev", names[1])
    eventually(lambda: caps(relayed, "empty-") == {"0": 2, "2": 1}, "it goes on")


@pytest.fixture
def stopping(administrator: Kubectl) -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """What stops the API server while a block runs. Afterwards the controllers have found it again."""
    if not (STATE / "apiserver.pid").exists():
        pytest.skip("the API server of this cluster is not ours to stop")
    command = [sys.executable, "-m", "tests.cluster.local"]

    @contextmanager
    def stopped() -> Iterator[None]:
        subprocess.run([*command, "stop-api-server"], check=True)
        try:
            yield
        finally:
            subprocess.run([*command, "start-api-server"], check=True)

    yield stopped
    with new_namespace(administrator) as kubectl:
        # their part in a namespace, without which no pod of it starts
        made = ("get", "configmap/kube-root-ca.crt", "serviceaccount/default", "--ignore-not-found", "--output=name")
        eventually(lambda: len(kubectl(*made).split()) == 2, "the controllers are back", patience=120)


def test_a_stopped_api_server_is_survived(
    installation: Installation, stopping: Callable[[], AbstractContextManager[None]]
) -> None:
    """Every limit stays as it is meanwhile; what is done as soon as it is back is found, by the operator as it was."""
    kubectl = installation.kubectl
    kubectl.apply(limit("stopped", maxRunning=1), limit("stopped-deleted", maxRunning=1, deletionGracePeriod="0s"))
    installation.wait_for_ready("limit/stopped", "limit/stopped-deleted")
    before = restarts(installation)
    with stopping():
        with pytest.raises(KubectlError, match=r"refused|unable to connect"):
            kubectl("get", "limits.tidegate.dev", "--request-timeout=2s")
        rows = installation.rows("select * from tidegate.limits order by key")
        with psycopg.connect(installation.database_url, autocommit=True) as connection:
            connection.execute("select pg_sleep(%s)", [OUTAGE])
        assert installation.rows("select * from tidegate.limits order by key") == rows
    kubectl.apply(limit("stopped", maxRunning=2), limit("stopped-created", maxRunning=3))
    kubectl("delete", "limits.tidegate.dev", "stopped-deleted")
    eventually(
        lambda: caps(installation, "stopped") == {"": 2, "-created": 3}, "what happened since is found", patience=90
    )
    installation.wait_for_ready("limit/stopped", "limit/stopped-created")
    assert restarts(installation) == before
