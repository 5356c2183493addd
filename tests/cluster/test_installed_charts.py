"""Both charts on a real cluster: workers from none to some and back by what limits let run, upgraded, removed."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster import helms
from tests.cluster.conftest import new_namespace
from tests.cluster.databases import ClusterPostgres
from tests.cluster.helms import SMALL, VERSION
from tests.cluster.installations import Installation
from tests.cluster.kubectls import Kubectl
from tests.cluster.waiting import eventually
from tidegate.audit.figures import Figure

DEPLOYMENT = "greetings-tidegate-worker"

PODS = "--selector=app.kubernetes.io/instance=greetings"

WORKERS: dict[str, Any] = {
    "image": {"repository": "localhost/tidegate-greetings", "tag": VERSION},
    "app": "greetings:app",
    "slots": 2,
    "queues": {
        "greetings": {
            "workers": {"minReplicas": 0, "maxReplicas": 3},
            "scaling": {"scaleDownWindow": "3s", "idleGrace": "3s"},
        }
    },
    "limits": {"narrow": {"maxRunning": 1}},
    "resources": SMALL,
}

COLD_STARTS = 2

COLD_START = """
select extract(epoch from w.started_at)::float8 as registered, extract(epoch from h.started_at)::float8 as started
  from tidegate.history h join tidegate.workers w on w.id = h.worker where h.id = %s
"""
"""When the worker of a job had registered, and when it started the job."""


TOGETHER = """
select count(*) from tidegate.history one join tidegate.history other
    on one.id < other.id and one.started_at < other.finished_at and other.started_at < one.finished_at
 where one.limit_key = 'narrow' and other.limit_key = 'narrow'
"""
"""Pairs of jobs under the limit that ran at one time."""


class Scene(Installation):
    """An operator, and workers whose Deployment it scales."""

    def __init__(self, kubectl: Kubectl, database_url: str) -> None:
        super().__init__(kubectl, database_url)
        self.helm("install", "greetings", helms.WORKERS, values=WORKERS)
        self.wait_for_ready("queue/greetings", "limit/narrow")

    def replicas(self) -> int:
        return int(self.kubectl.object("deployment", DEPLOYMENT)["spec"]["replicas"])

    def greet(self, name: str, seconds: float = 0, limit_key: str = "") -> int:
        return self.enqueue("greetings", "greet", {"name": name, "seconds": seconds}, limit_key)

    def is_idle(self) -> bool:
        return self.rows("select count(*) from tidegate.jobs") == [{"count": 0}]

    def until_idle(self) -> None:
        """Wait until nothing is left to do, and nobody to do it."""
        eventually(self.is_idle, "all jobs are done", patience=120)
        eventually(lambda: self.replicas() == 0, "an idle queue goes without workers", patience=120)
        self.kubectl("wait", "--for=delete", "pod", PODS, "--timeout=60s")


@pytest.fixture(scope="module")
def scene(administrator: Kubectl, postgres: ClusterPostgres) -> Iterator[Scene]:
    with new_namespace(administrator) as kubectl:
        yield Scene(kubectl, postgres.new_database())


def test_both_charts_pass_their_own_tests(scene: Scene) -> None:
    assert "limits.tidegate.dev" in scene.helm("get", "notes", "tidegate")
    scene.helm("test", "tidegate")
    scene.helm("test", "greetings")


def test_the_first_job_of_an_idle_queue_waits_for_its_pod_alone(scene: Scene, figures: list[Figure]) -> None:
    """From the commit of a job to its start, less what the pod takes from its creation until its worker has registered.

    The creation counts from when a watch tells of it: late rather than early, at the cost of our own part.
    """
    whole, own = [], []
    for number in range(COLD_STARTS):
        scene.until_idle()
        with scene.kubectl.watching("pods", PODS, "--output=name") as pods:
            enqueued = time.time()
            job = scene.greet(f"cold {number}")
            next(pods)
            created = time.time()
            eventually(scene.is_idle, "the job is done", patience=120)
        (at,) = scene.rows(COLD_START, job)
        assert enqueued < created < at["registered"] < at["started"]
        whole.append(at["started"] - enqueued)
        own.append((created - enqueued) + (at["started"] - at["registered"]))
    for name, seconds, bar in (("", own, 3), (", with the pod's start", whole, 60)):
        what = f"a job in an idle queue until a new pod starts it, at most{name}"
        figures.append(Figure(what, round(max(seconds), 2), "s", bar, "<=", COLD_STARTS))


def test_workers_follow_what_limits_let_run(scene: Scene) -> None:
    scene.until_idle()
    # a backlog that its limit holds back asks for one worker, however long it is
    seen = set()
    jobs = [scene.greet(f"narrow {number}", 1, "narrow") for number in range(6)]

    def narrow_done() -> bool:
        seen.add(scene.replicas())
        return scene.is_idle()

    eventually(narrow_done, "the blocked backlog is worked off by one worker", patience=120)
    assert max(seen) == 1

    # one that no limit holds back takes all it may
    jobs += [scene.greet(f"wide {number}", 4) for number in range(12)]
    eventually(lambda: scene.replicas() == 3, "more workers for more runnable jobs")
    scene.until_idle()

    assert scene.rows(TOGETHER) == [{"count": 0}]
    states = "select state, attempt, lost, count(*) from tidegate.history where id >= %s group by 1, 2, 3"
    assert scene.rows(states, jobs[0]) == [{"state": "succeeded", "attempt": 1, "lost": 0, "count": 18}]


def test_what_outlives_an_upgrade_and_an_uninstallation(scene: Scene) -> None:
    scene.until_idle()
    scene.helm("upgrade", "greetings", helms.WORKERS, values={**WORKERS, "slots": 4})
    assert scene.replicas() == 0
    scene.helm("uninstall", "greetings", "--wait")
    scene.helm("uninstall", "tidegate", "--wait")
    assert scene.kubectl.object("crd", "limits.tidegate.dev")
    policy = scene.policy("narrow")
    assert policy is not None
    assert policy["max_running"] == 1
