"""How fast, how quiet and how small: an operator in the pod that the chart makes, under changes and many objects."""

import json
import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime
from http import HTTPStatus
from http.client import HTTPConnection
from itertools import count
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest

from tests.cluster.api_servers import TIMEOUT, ApiServer
from tests.cluster.databases import ClusterPostgres
from tests.cluster.installations import Installation, limit, queue
from tests.cluster.kubectls import Kubectl
from tests.cluster.waiting import PATIENCE, eventually
from tidegate.audit.figures import Figure
from tidegate.model.documents import API_VERSION
from tidegate_operator.cluster.events import CONTROLLER

CHANGES = 100
"""Applies of one Limit, one after the other."""

LIMITS, QUEUES = 2_000, 200

AT_ONCE = 8
"""Requests under way at a time, as a GitOps tool sends them."""

QUIET_RENEWALS = 8
"""Renewals of the operator's lease, one in two seconds, for which nothing else is written."""

SETTLING_RENEWALS = 3

BETWEEN_CLAIMS = 0.01
"""Seconds."""

MANAGER = "fieldManager=tests&force=true"
APPLY = "application/apply-patch+yaml"

CLAIM = "select id from tidegate.claim(%s, %s, 'bars', 1, '{bars}') where id is not null"
ENQUEUE = """
select count(made.id) from generate_series(1, 20000) n,
  lateral tidegate.enqueue('bars', 'bars', payload => jsonb_build_object('number', n), limit_key => 'obeyed') made
"""
WRITES = """
select relname, n_tup_ins, n_tup_upd, n_tup_del from pg_stat_user_tables where schemaname = 'tidegate' order by relname
"""
"""What was ever written to each table; the catalogue's own, as an ANALYZE writes it, is not the operator's."""


def path_of(namespace: str, document: dict[str, Any]) -> str:
    plural = f"{document['kind'].lower()}s"
    return f"/apis/{API_VERSION}/namespaces/{namespace}/{plural}/{document['metadata']['name']}?{MANAGER}"


def apply(api_server: ApiServer, namespace: str, document: dict[str, Any]) -> None:
    """Apply an object on the server's side, without the time that a start of kubectl takes."""
    answer = api_server.request("PATCH", path_of(namespace, document), document, APPLY)
    assert answer["kind"] == document["kind"], answer


def create(api_server: ApiServer, namespace: str, documents: Sequence[dict[str, Any]]) -> None:
    """Create objects, one after the other on one connection."""
    with closing(HTTPConnection(urlsplit(api_server.url).netloc, timeout=TIMEOUT)) as connection:
        for document in documents:
            path = f"/apis/{API_VERSION}/namespaces/{namespace}/{document['kind'].lower()}s"
            connection.request("POST", path, json.dumps(document), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            said = answer.read()
            assert answer.status == HTTPStatus.CREATED, said


class ByHand:
    """A worker of one slot that claims again and again, and acks what it gets."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection, self._worker, self._claims = connection, uuid4(), count(1)
        connection.execute(
            "select tidegate.register_worker(%s, 'by hand', '{bars}', '{bars}', 1, null, '1 hour', '1')", [self._worker]
        )

    def starts_one(self) -> bool:
        """Claim once, and tell whether a job was started."""
        number = next(self._claims)
        found = self._connection.execute(CLAIM, [self._worker, number]).fetchone()
        if found is not None:
            self._connection.execute("select tidegate.ack(%s, array[%s], array[%s])", [self._worker, found[0], number])
        return found is not None

    def seconds_until(self, starts: bool) -> float:
        """Claim until jobs are started, or are no more, and return how long that took."""
        began = time.monotonic()
        while self.starts_one() is not starts:
            time.sleep(BETWEEN_CLAIMS)
            assert time.monotonic() < began + PATIENCE, "the claims do not obey"
        return time.monotonic() - began


def test_the_next_claim_obeys_what_was_applied(
    installation: Installation, api_server: ApiServer, figures: list[Figure]
) -> None:
    """Held and let go in turn: from the moment that the API server has taken the change to the claim that obeys it."""
    namespace = installation.kubectl.namespace
    apply(api_server, namespace, limit("obeyed", maxRunning=1))
    installation.wait_for_ready("limit/obeyed")
    installation.rows(ENQUEUE)
    seconds = []
    with psycopg.connect(installation.database_url, autocommit=True) as connection:
        worker = ByHand(connection)
        worker.seconds_until(starts=True)
        for change in range(CHANGES):
            runs = change % 2 == 1
            apply(api_server, namespace, limit("obeyed", maxRunning=int(runs)))
            seconds.append(worker.seconds_until(starts=runs))
    assert installation.rows("select waiting > 0 as left from tidegate.limit_status where key = 'obeyed'") == [
        {"left": True}
    ]
    rank = math.ceil(0.99 * CHANGES) - 1
    for name, at, bar in (("p50", CHANGES // 2, 2.0), ("p99", rank, 2.0)):
        value = round(sorted(seconds)[at], 3)
        figures.append(Figure(f"apply of a Limit to the claim that obeys it, {name}", value, "s", bar, "<=", CHANGES))


@pytest.fixture
def crowded(kubectl: Kubectl, postgres: ClusterPostgres) -> Installation:
    """An operator with the memory that the chart gives it by default."""
    return Installation(kubectl, postgres.new_database(), resources={"limits": {"memory": "256Mi"}})


def is_ready(found: Any) -> bool:
    conditions = found.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def most_memory(installation: Installation) -> int:
    """Most bytes that the operator's process has had in memory."""
    status = installation.kubectl("exec", "deployment/tidegate", "--", "cat", "/proc/1/status").splitlines()
    return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def versions(kubectl: Kubectl) -> dict[str, str]:
    """Every object that the operator writes, in its present version; its lease apart."""
    found = kubectl.object("limits.tidegate.dev,queues.tidegate.dev,events.events.k8s.io")["items"]
    ours = [each for each in found if each["kind"] != "Event" or each["reportingController"] == CONTROLLER]
    return {each["metadata"]["uid"]: each["metadata"]["resourceVersion"] for each in ours}


def test_many_objects_at_once(crowded: Installation, api_server: ApiServer, figures: list[Figure]) -> None:
    """2,000 Limits and 200 Queues: ready, then quiet, in no more memory than the chart allows."""
    kubectl = crowded.kubectl
    items = [limit(f"l{number}", maxRunning=5, rate={"maxStarts": 9, "window": "1m"}) for number in range(LIMITS)]
    items += [queue(f"q{number}") for number in range(QUEUES)]
    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda part: create(api_server, kubectl.namespace, items[part::AT_ONCE]), range(AT_ONCE)))
    applied = time.monotonic() - began

    def ready() -> bool:
        found = kubectl.object("limits.tidegate.dev,queues.tidegate.dev")["items"]
        return len(found) == len(items) and all(is_ready(each) for each in found)

    eventually(ready, "every object is ready", patience=60)
    whole = time.monotonic() - began
    assert crowded.rows("select count(*) from tidegate.limits") == [{"count": LIMITS}]
    samples = len(items)
    figures.append(
        Figure("2,000 Limits and 200 Queues from the first apply to Ready", round(whole, 1), "s", 60, "<=", samples)
    )
    figures.append(Figure("the same, from the last apply", round(whole - applied, 1), "s", 60, "<=", samples))
    _is_quiet(crowded, figures)
    memory = most_memory(crowded)
    figures.append(Figure("operator's memory at 2,200 objects, at most", memory >> 20, "MiB", 200, "<=", 1))
    assert memory < 200 << 20


def _is_quiet(installation: Installation, figures: list[Figure]) -> None:
    kubectl = installation.kubectl
    with kubectl.watching("lease", "tidegate", "--output=jsonpath={.spec.renewTime}{'\\n'}") as renewed:
        # what a session has written is counted up to one look at the numbers later
        for _ in range(SETTLING_RENEWALS):
            next(renewed)
        objects, rows = versions(kubectl), installation.rows(WRITES)
        times = [datetime.fromisoformat(next(renewed).strip()) for _ in range(1 + QUIET_RENEWALS)]
        assert installation.rows(WRITES) == rows
        assert versions(kubectl) == objects
    rate = round(QUIET_RENEWALS / (times[-1] - times[0]).total_seconds(), 2)
    figures.append(Figure("writes to the API when nothing changes", rate, "/s", 1, "<=", QUIET_RENEWALS, "the lease"))
    figures.append(Figure("rows written when nothing changes", 0, "rows", 0, "==", QUIET_RENEWALS))
