"""The operator killed outright at points of its loop, in the pod that the chart makes: its successor puts all right.

Each point is a request of the operator that is held, before the API server hears of it or once it has answered, or a
statement that the database is in the middle of. The process is killed while it waits there. Whatever was under way then
is whole or not at all, and nothing in between opens a limit.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

import pytest

from tests.cluster.api_relays import ApiRelay
from tests.cluster.installations import PODS, Installation, limit, queue
from tests.cluster.waiting import eventually

KILL = "import resource; resource.prlimit(1, resource.RLIMIT_CPU, (1, 1))"
"""Kills the first process of a container from inside of it: it is safe from signals of its own namespace, but not from
the kernel, which ends at once what has used up its seconds on the CPU."""

SIGKILLED = 137
"""Exit code of a container that SIGKILL ended."""

LEASE = "/leases/tidegate$"
LIMITS = "/limits$"
SCALE = "/deployments/idle/scale$"

PREPARE = (
    "create table public.held_points (point text)",
    """create function public.hold() returns trigger language plpgsql as $$ begin
       while exists (select from public.held_points where point = tg_argv[0]) loop
         perform pg_sleep(0.05);
       end loop;
       return null; end $$""",
    "create trigger held after update on tidegate.epochs for each row execute function public.hold('office')",
    "create trigger held_insert after insert on tidegate.keys for each row execute function public.hold('insert')",
    "create trigger held_update after update on tidegate.keys for each row execute function public.hold('update')",
    """create trigger held_sweep after update on tidegate.keys for each row when (new.owner is null)
       execute function public.hold('sweep')""",
    """create table public.openings (key text, at timestamptz default clock_timestamp())""",
    """create function public.watch() returns trigger language plpgsql as $$ begin
       if tg_op = 'DELETE' or new.max_running is null then
         insert into public.openings(key) values (old.key);
       end if;
       return null; end $$""",
    """create trigger watched after update or delete on tidegate.keys for each row
       when (old.key in ('changed', 'replaced')) execute function public.watch()""",
)
"""Points in the database at which a statement can be held, and a record of every moment of a key without a limit."""

IN_THE_MIDDLE = "select pid from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'"


@dataclass(frozen=True)
class Point:
    """Where the operator is killed. ``at_start`` is a point that an operator passes as it begins to lead."""

    name: str
    method: str = ""
    path: str = ""
    when: Literal["asked", "answered"] = "asked"
    at_start: bool = False
    passing: int = 0
    """How many such requests pass before."""
    held: str = ""
    """The point in the database, for one that is no request."""


POINTS = (
    Point("renewing its lease", "PUT", LEASE),
    Point("taking office", at_start=True, held="office"),
    Point("listing objects", "GET", LIMITS, at_start=True, passing=1),
    Point("inserting rows", held="insert"),
    Point("updating rows", held="update"),
    Point("writing a status", "PATCH", "/status$"),
    Point("having written a status", "PATCH", "/status$", "answered"),
    Point("creating an Event", "POST", "/events$"),
    Point("asking for the object of an orphan", "GET", "/limits/deleted-"),
    Point("asking what is served", "GET", "/apis/tidegate.dev/v1alpha1$"),
    Point("giving up a row", held="sweep"),
    Point("reading a scale", "GET", SCALE),
    Point("writing a scale", "PATCH", SCALE),
    Point("having written a scale", "PATCH", SCALE, "answered"),
)


def idle_deployment() -> dict[str, Any]:
    """A Deployment whose pods find no node: what is scaled here is a number."""
    labels = {"app": "idle"}
    container = {"name": "worker", "image": "localhost/there-is-none:0", "imagePullPolicy": "Never"}
    pod = {"nodeSelector": {"tidegate.dev/there-is": "none"}, "containers": [container]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "idle"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def crew(replicas: int) -> dict[str, Any]:
    workers = {"deploymentRef": {"name": "idle"}, "replicas": replicas, "maxReplicas": 100}
    return queue("idle", workers=workers, scaling={"mode": "Manual"})


@dataclass
class Scene:
    """An installation with objects of each kind, which every round changes, replaces, deletes, creates and disputes."""

    installation: Installation
    relay: ApiRelay
    rounds: Iterator[int] = field(default_factory=lambda: count(1))
    round: int = 0
    epoch_before: int = 0

    def prepare(self) -> None:
        for statement in PREPARE:
            self.installation.rows(statement)
        self.installation.kubectl.apply(idle_deployment(), crew(0))
        self._apply()
        self.installation.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "limits.tidegate.dev/changed")
        self.until_right()

    def go_on(self) -> None:
        """Change everything."""
        before, self.round = self.round, next(self.rounds)
        kubectl = self.installation.kubectl
        kubectl("replace", "--force", "-f", "-", stdin=json.dumps(limit("replaced", maxRunning=1 + self.round)))
        self._apply()
        kubectl("delete", "limits.tidegate.dev", f"deleted-{before}", f"disputing-{before}", "--wait=false")
        kubectl("scale", "queues.tidegate.dev", "idle", f"--replicas={self.round}")

    def _apply(self) -> None:
        number = self.round
        self.installation.kubectl.apply(
            limit("changed", maxRunning=1 + number),
            limit("replaced", maxRunning=1 + number),
            limit(f"deleted-{number}", maxRunning=1, deletionGracePeriod="0s"),
            limit(f"disputing-{number}", key="changed", maxRunning=1_000),
        )

    def wanted(self) -> dict[str, int]:
        number = self.round
        return {"changed": 1 + number, "replaced": 1 + number, f"deleted-{number}": 1}

    def openings(self) -> list[dict[str, Any]]:
        """Every moment at which a key that always has a Limit was unlimited."""
        return self.installation.rows("select * from public.openings")

    def until_right(self) -> None:
        """Wait until there is a successor, and rows, owners, statuses and replicas are what this round asks for."""

        def look() -> bool:
            rows = self.installation.rows("select key, max_running, owner->>'uid' as uid from tidegate.limits")
            if self.epoch() == self.epoch_before or {row["key"]: row["max_running"] for row in rows} != self.wanted():
                return False
            objects = self.installation.kubectl.object("limits.tidegate.dev,queues.tidegate.dev,deployments.apps")
            return _are_right({row["key"]: row["uid"] for row in rows}, objects["items"])

        eventually(look, f"all is right in round {self.round}")

    def running(self) -> str | None:
        """The name of the operator's pod, once its process runs."""
        for pod in self.installation.kubectl.object("pods", PODS)["items"]:
            states = [each["state"] for each in pod["status"].get("containerStatuses", [])]
            if "deletionTimestamp" not in pod["metadata"] and any("running" in state for state in states):
                return str(pod["metadata"]["name"])
        return None

    def epoch(self) -> int:
        """How often an operator took office."""
        (row,) = self.installation.rows("select epoch from tidegate.epochs")
        return int(row["epoch"])

    def kill(self) -> None:
        """End the operator by SIGKILL, and make room for its successor."""
        kubectl = self.installation.kubectl
        name = eventually(self.running, "an operator runs")
        self.epoch_before = self.epoch()
        kubectl("exec", name, "--", "python3", "-c", KILL)

        def killed() -> bool:
            (container,) = kubectl.object("pod", name)["status"]["containerStatuses"]
            ended = container["state"].get("terminated") or container["lastState"].get("terminated")
            return ended is not None and ended["exitCode"] == SIGKILLED

        eventually(killed, "the operator is killed")
        # the container would be started again, later each time; a new pod starts at once
        kubectl("delete", "pod", name, "--grace-period=0", "--force")
        # its successor would wait for 15 s, which other tests see
        kubectl("delete", "lease", "tidegate", "--ignore-not-found")

    @contextmanager
    def held(self, point: Point) -> Iterator[Callable[[], object]]:
        """Hold the operator when it comes to a point, until the block ends; yields what waits for that."""
        if point.held:
            rows = self.installation.rows
            rows("insert into public.held_points values (%s)", point.held)
            try:
                yield lambda: eventually(lambda: bool(rows(IN_THE_MIDDLE)), f"it is {point.name}")
            finally:
                rows("delete from public.held_points")
        else:
            with self.relay.holding(point.method, point.path, point.when, passing=point.passing) as hold:
                yield lambda: eventually(hold.reached.is_set, f"it is {point.name}")


def _are_right(uids: dict[str, str], objects: list[Any]) -> bool:
    for each in objects:
        metadata, status = each["metadata"], each.get("status", {})
        if each["kind"] == "Deployment":
            continue
        ready: dict[str, Any] = next((found for found in status.get("conditions", []) if found["type"] == "Ready"), {})
        disputing = metadata["name"].startswith("disputing-")
        if status.get("observedGeneration") != metadata["generation"]:
            return False
        if ready.get("reason") != ("KeyConflict" if disputing else "InForce"):
            return False
        if each["kind"] == "Limit" and not disputing and uids[metadata["name"]] != metadata["uid"]:
            return False
    wanted = {each["spec"]["workers"]["replicas"] for each in objects if each["kind"] == "Queue"}
    return wanted == {
        each["spec"]["replicas"]
        for each in objects
        if (each["kind"], each["metadata"]["name"]) == ("Deployment", "idle")
    }


@pytest.fixture(scope="module")
def scene(relayed: Installation, relay: ApiRelay) -> Scene:
    scene = Scene(relayed, relay)
    scene.prepare()
    return scene


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.name.replace(" ", "-"))
def test_a_killed_operator_is_succeeded(scene: Scene, point: Point) -> None:
    with scene.held(point) as wait_for_it:
        if point.at_start:
            scene.kill()
        scene.go_on()
        wait_for_it()
        scene.kill()
    scene.until_right()
    assert scene.openings() == []
