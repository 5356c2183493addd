"""The operator's image in a real pod: objects into Postgres, numbers into ``kubectl get``, and what may go wrong."""

import json
from datetime import timedelta
from typing import Any

import pytest

from tests.cluster.databases import ClusterPostgres
from tests.cluster.installations import PODS, Installation, limit, queue
from tests.cluster.test_worker_images import EXAMPLES, deployment
from tests.cluster.waiting import eventually

WATCH = (
    "create table public.watched (id bigint generated always as identity, max_running int)",
    """create function public.watch() returns trigger language plpgsql as $$ begin
       if tg_op = 'DELETE' or new.key = 'replaced' then
         insert into public.watched(max_running) values (case when tg_op <> 'DELETE' then new.max_running end);
       end if;
       return null; end $$""",
    "create trigger watched after update or delete on tidegate.keys for each row execute function public.watch()",
)
"""Keeps every policy that the key `replaced` has had, NULL where it had none."""


def owner_uid(policy: dict[str, Any] | None) -> str | None:
    return None if policy is None or policy["owner"] is None else str(policy["owner"]["uid"])


def test_a_start_compiles_nothing(installation: Installation) -> None:
    """Bytecode that does not fit its source is made anew at each start, which costs seconds and 85 MiB."""
    imports = "import tidegate_operator.commands; from kubernetes.aio.client import CoreV1Api, CustomObjectsApi"
    script = f"python3 -v -c '{imports}' 2>&1 | grep -o \"code object from '*/opt/[^ ]*\" | sort | uniq"
    loaded = installation.kubectl("exec", "deployment/tidegate", "--", "sh", "-c", script).splitlines()
    assert len(loaded) > 100
    assert [line for line in loaded if not line.rstrip("'").endswith(".pyc")] == []


def test_objects_come_into_force(installation: Installation) -> None:
    kubectl = installation.kubectl
    kubectl.apply(
        limit("in-force", key="In force", maxRunning=4, rate={"maxStarts": 100, "window": "1m"}),
        queue("in-force", order="Fair", defaults={"maxAttempts": 3}),
    )
    installation.wait_for_ready("limit/in-force", "queue/in-force")
    policy = installation.policy("In force")
    assert policy is not None
    assert (policy["max_running"], policy["max_starts"], policy["rate_window"]) == (4, 100, timedelta(minutes=1))
    assert owner_uid(policy) == kubectl.object("limit", "in-force")["metadata"]["uid"]
    (row,) = installation.rows(
        "select declared_order, default_max_attempts from tidegate.queues where name = 'in-force'"
    )
    assert row == {"declared_order": "fair", "default_max_attempts": 3}

    kubectl.apply(limit("in-force", key="In force", maxRunning=1))
    installation.wait_for_ready("limit/in-force")
    policy = installation.policy("In force")
    assert policy is not None
    assert (policy["max_running"], policy["max_starts"]) == (1, None)


def test_numbers_move(installation: Installation) -> None:
    kubectl = installation.kubectl
    kubectl("create", "configmap", "greetings", f"--from-file={EXAMPLES / 'greetings.py'}")
    kubectl.apply(deployment(), limit("moving", maxRunning=2), queue("greetings"))
    for number in range(3):
        installation.enqueue("greetings", "greet", {"name": str(number), "seconds": 8}, limit_key="moving")

    def shown(*cells: str) -> bool:
        rows = [line.split() for line in kubectl("get", "limits").splitlines()]
        found = next((row for row in rows if row[0] == "moving"), [])
        return tuple(found[1:5]) == ("moving", *cells)

    eventually(lambda: shown("2", "2", "1"), "two run, one waits")
    (queues,) = [row for row in kubectl.object("queues")["items"] if row["metadata"]["name"] == "greetings"]
    assert queues["status"]["running"] <= 2
    eventually(lambda: shown("0", "2", "0"), "all have run")


def test_the_policy_outlives_its_object_by_its_grace(installation: Installation) -> None:
    kubectl = installation.kubectl
    kubectl.apply(
        limit("going", maxRunning=1, deletionGracePeriod="4s"),
        limit("staying", maxRunning=1, deletionPolicy="Retain"),
    )
    installation.wait_for_ready("limit/going", "limit/staying")
    kubectl("delete", "limits.tidegate.dev", "going", "staying", "--timeout=10s")
    assert installation.policy("going") is not None
    eventually(lambda: installation.policy("going") is None, "the grace ends")
    staying = installation.policy("staying")
    assert staying is not None
    assert staying["max_running"] == 1


def test_a_replaced_object_never_opens_the_limit(installation: Installation) -> None:
    kubectl = installation.kubectl
    kubectl.apply(limit("replaced", maxRunning=1, deletionGracePeriod="0s"))
    installation.wait_for_ready("limit/replaced")
    for statement in WATCH:
        installation.rows(statement)
    try:
        kubectl("replace", "--force", "-f", "-", stdin=json.dumps(limit("replaced", maxRunning=2)))
        uid = kubectl.object("limit", "replaced")["metadata"]["uid"]
        installation.wait_for_ready("limit/replaced")
        policy = installation.policy("replaced")
        assert policy is not None
        assert (policy["max_running"], owner_uid(policy)) == (2, uid)
        caps = [row["max_running"] for row in installation.rows("select max_running from public.watched order by id")]
        assert caps[-1] == 2
        assert set(caps) <= {1, 2}
    finally:
        installation.rows("drop trigger watched on tidegate.keys")


def test_of_two_objects_for_one_key_one_decides(installation: Installation) -> None:
    kubectl = installation.kubectl
    kubectl.apply(limit("first", key="shared", maxRunning=1, deletionGracePeriod="0s"))
    installation.wait_for_ready("limit/first")
    kubectl.apply(limit("second", key="shared", maxRunning=9))
    told = installation.wait_for_reason("limit/second", "KeyConflict")
    assert "first" in told["message"]
    policy = installation.policy("shared")
    assert policy is not None
    assert policy["max_running"] == 1
    kubectl("delete", "limits.tidegate.dev", "first")
    installation.wait_for_ready("limit/second")
    policy = installation.policy("shared")
    assert policy is not None
    assert policy["max_running"] == 9


@pytest.mark.parametrize("force", [False, True], ids=["asked", "killed"])
def test_a_restarted_operator_finds_what_has_changed(installation: Installation, force: bool) -> None:
    kubectl = installation.kubectl
    name = f"restarted-{force}".lower()
    kubectl.apply(limit(name, maxRunning=1, deletionGracePeriod="0s"), limit(f"{name}-edited", maxRunning=1))
    installation.wait_for_ready(f"limit/{name}", f"limit/{name}-edited")
    kubectl("scale", "deployment", "tidegate", "--replicas=0")
    if force:
        kubectl("delete", "pod", PODS, "--grace-period=0", "--force")
    kubectl("wait", "--for=delete", "pod", PODS, "--timeout=30s")
    kubectl("delete", "limits.tidegate.dev", name)
    kubectl.apply(limit(f"{name}-edited", maxRunning=2))
    kubectl("scale", "deployment", "tidegate", "--replicas=1")
    installation.wait_for_ready(f"limit/{name}-edited")
    eventually(lambda: installation.policy(name) is None, "the deletion is noticed")
    policy = installation.policy(f"{name}-edited")
    assert policy is not None
    assert policy["max_running"] == 2


def test_a_stopped_database_is_said_and_survived(installation: Installation, postgres: ClusterPostgres) -> None:
    kubectl = installation.kubectl
    kubectl.apply(limit("outage-edited", maxRunning=1), limit("outage-deleted", maxRunning=1, deletionGracePeriod="0s"))
    installation.wait_for_ready("limit/outage-edited", "limit/outage-deleted")
    restarts = _restarts(installation)
    postgres.stop()
    try:
        kubectl.apply(limit("outage-edited", maxRunning=2), limit("outage-created", maxRunning=3))
        kubectl("delete", "limits.tidegate.dev", "outage-deleted")
        for name in ("limit/outage-edited", "limit/outage-created"):
            installation.wait_for_reason(name, "DatabaseUnavailable")
    finally:
        postgres.start()
    installation.wait_for_ready("limit/outage-edited", "limit/outage-created")
    eventually(lambda: installation.policy("outage-deleted") is None, "the deletion is made up for")
    caps = [installation.policy(f"outage-{what}") for what in ("edited", "created")]
    assert [cap["max_running"] for cap in caps if cap] == [2, 3]
    assert _restarts(installation) == restarts


def _restarts(installation: Installation) -> int:
    pods = installation.kubectl.object("pods", PODS)["items"]
    return sum(each["restartCount"] for pod in pods for each in pod["status"]["containerStatuses"])
