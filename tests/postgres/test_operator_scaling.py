"""Scaling carried out: a real database with real demand and workers, Deployments and pods of a cluster in memory."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.postgres.operator_clusters import MemoryCluster, leading
from tidegate_operator.cluster.deployments import Scale
from tidegate_operator.conditions import find
from tidegate_operator.reconcile.scaling_observations import Pod
from tidegate_operator.resources import Kind

LIMIT, QUEUE = Kind.LIMIT, Kind.QUEUE
MAILERS = ("team", "mailers")
SELECTOR = "app=mailers"
QUICK = {"scaleDownWindow": "0s", "idleGrace": "0s"}


@pytest.fixture
def cluster() -> MemoryCluster:
    """A Deployment without replicas, and the Queue that names it."""
    cluster = MemoryCluster()
    cluster.scales[MAILERS] = Scale(0, "1", SELECTOR)
    cluster.apply(QUEUE, "mail", queue_spec())
    return cluster


def queue_spec(scaling: dict[str, Any] | None = None, **workers: Any) -> dict[str, Any]:
    return {
        "scaling": QUICK if scaling is None else scaling,
        "workers": {"deploymentRef": {"name": "mailers"}, "slots": 2, "maxReplicas": 8, **workers},
    }


def condition(cluster: MemoryCluster, type_: str) -> tuple[str, str]:
    found = find(cluster.status(QUEUE, "mail"), type_)
    return str(found.get("status")), str(found.get("reason"))


def replicas(cluster: MemoryCluster) -> int:
    return cluster.scales[MAILERS].replicas


def start_pods(cluster: MemoryCluster) -> None:
    """Play the controller and the kubelet: every replica has a ready pod."""
    cluster.running[SELECTOR] = [Pod(f"mailers-{number}", ready=True, age=60.0) for number in range(replicas(cluster))]


async def enqueue(connection: Any, count: int, key: str = "") -> None:
    await connection.execute(
        "select tidegate.enqueue('mail', 'a', limit_key => $2) from generate_series(1, $1)", count, key
    )


async def register(connection: Any, pod: str) -> UUID:
    worker = uuid4()
    await connection.execute(
        "select tidegate.register_worker($1, $2, '{mail}', '{a}', 2, false, interval '1 hour', '0', 'team', $2)",
        worker,
        pod,
    )
    return worker


async def test_runnable_jobs_start_workers_and_are_shown(
    cluster: MemoryCluster, database_url: str, connection: Any
) -> None:
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: condition(cluster, "ScalingActive") == ("True", "ByDemand"))
        await enqueue(connection, 6)
        await leader.until(lambda: replicas(cluster) == 3)
        start_pods(cluster)
        await leader.until(lambda: cluster.status(QUEUE, "mail").get("workers", {}).get("summary") == "3/3")
        workers = cluster.status(QUEUE, "mail")["workers"]
        assert (workers["replicas"], workers["readyReplicas"], workers["selector"]) == (3, 3, SELECTOR)
        assert "lastScaleTime" in workers


async def test_blocked_jobs_start_nobody(cluster: MemoryCluster, database_url: str, connection: Any) -> None:
    cluster.apply(LIMIT, "vendor-x", {"maxRunning": 2})
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: cluster.ready(LIMIT, "vendor-x")[0] == "True")
        await enqueue(connection, 500, "vendor-x")
        await leader.until(lambda: replicas(cluster) > 0)
        await leader.until(lambda: cluster.status(QUEUE, "mail").get("blocked") == 498)
        assert replicas(cluster) == 1
        assert cluster.status(QUEUE, "mail")["blockedBy"] == [{"key": "vendor-x", "jobs": 498, "by": "MaxRunning"}]


async def test_workers_are_drained_before_replicas_go(
    cluster: MemoryCluster, database_url: str, connection: Any
) -> None:
    async with leading(cluster, database_url) as leader:
        await enqueue(connection, 6)
        await leader.until(lambda: replicas(cluster) == 3)
        start_pods(cluster)
        crew = [await register(connection, f"mailers-{number}") for number in range(3)]
        busy, *idle = crew
        claimed = await connection.fetch("select * from tidegate.claim($1, 1, 'mail', 2, '{a}')", busy)
        assert len([row for row in claimed if row["id"] is not None]) == 2
        jobs = await connection.fetch("select id from tidegate.jobs where state = 'ready'")
        for job in jobs:
            await connection.execute("select tidegate.cancel($1)", job["id"])

        marked = "select array_agg(id order by id) from tidegate.workers where draining_at is not null"
        async with asyncio.timeout(20):
            while await connection.fetchval(marked) != sorted(idle):
                await asyncio.sleep(0.02)
        assert replicas(cluster) == 3
        cluster.running[SELECTOR] = [Pod(f"mailers-{number}", ready=number == 0, age=60.0) for number in range(3)]
        await leader.until(lambda: replicas(cluster) == 1)
        start_pods(cluster)
        assert await connection.fetchval("select draining_at from tidegate.workers where id = $1", busy) is None


async def test_a_mode_that_is_off_writes_nothing(cluster: MemoryCluster, database_url: str, connection: Any) -> None:
    cluster.apply(QUEUE, "mail", queue_spec({"mode": "Off"}))
    await enqueue(connection, 50)
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: condition(cluster, "ScalingActive") == ("False", "ScalingOff"))
        assert "set_scale" not in cluster.calls


async def test_a_mode_that_is_manual_writes_what_was_asked(
    cluster: MemoryCluster, database_url: str, connection: Any
) -> None:
    cluster.apply(QUEUE, "mail", queue_spec({"mode": "Manual"}, replicas=4))
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: condition(cluster, "ScalingActive") == ("True", "ByHand"))
        await leader.until(lambda: replicas(cluster) == 4)


async def test_another_autoscaler_is_refused(cluster: MemoryCluster, database_url: str, connection: Any) -> None:
    cluster.rivals = {"mailers": ["HorizontalPodAutoscaler mailers"]}
    await enqueue(connection, 50)
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: condition(cluster, "ScalingActive") == ("False", "OtherAutoscaler"))
        assert "set_scale" not in cluster.calls


async def test_a_deployment_that_is_not_there_is_named(cluster: MemoryCluster, database_url: str) -> None:
    cluster.scales.clear()
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: condition(cluster, "ScalingActive") == ("False", "DeploymentNotFound"))
        assert cluster.ready(QUEUE, "mail") == ("True", "InForce")
        cluster.scales[MAILERS] = Scale(0, "1", SELECTOR)
        await leader.until(lambda: condition(cluster, "ScalingActive") == ("True", "ByDemand"))


async def test_scaling_by_hand_in_auto_is_answered(cluster: MemoryCluster, database_url: str) -> None:
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: condition(cluster, "ScalingActive") == ("True", "ByDemand"))
        cluster.apply(QUEUE, "mail", queue_spec(replicas=7))
        await leader.until(lambda: ("mail", "ScaleIgnored") in cluster.events)
        assert replicas(cluster) == 0


async def test_what_is_settled_is_not_looked_at_all_the_time(cluster: MemoryCluster, database_url: str) -> None:
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: condition(cluster, "ScalingActive") == ("True", "ByDemand"))
        looks, passes = cluster.calls.count("scale"), leader.passes
        await leader.until(lambda: leader.passes > passes + 9)
        assert cluster.calls.count("scale") <= looks + 1


async def test_a_deployment_that_does_not_answer_holds_up_nobody(
    cluster: MemoryCluster, database_url: str, connection: Any
) -> None:
    cluster.silent["mailers"] = asyncio.Event()
    cluster.scales["team", "printers"] = Scale(0, "1", "app=printers")
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: "scale" in cluster.calls)
        cluster.apply(LIMIT, "vendor-x", {"maxRunning": 2})
        await leader.until(lambda: cluster.ready(LIMIT, "vendor-x") == ("True", "InForce"))
        cluster.apply(QUEUE, "print", {**queue_spec(), "workers": {"deploymentRef": {"name": "printers"}, "slots": 2}})
        await connection.execute("select tidegate.enqueue('print', 'a') from generate_series(1, 6)")
        await leader.until(lambda: cluster.scales["team", "printers"].replicas == 3)
        await enqueue(connection, 2)
        cluster.silent.pop("mailers").set()
        await leader.until(lambda: replicas(cluster) == 1)


async def test_a_look_that_lasted_does_not_scale_for_an_object_that_changed_meanwhile(
    cluster: MemoryCluster, database_url: str, connection: Any
) -> None:
    cluster.silent["mailers"] = asyncio.Event()
    await enqueue(connection, 6)
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: "scale" in cluster.calls)
        cluster.apply(QUEUE, "mail", queue_spec({"mode": "Off"}))
        await leader.until(lambda: cluster.status(QUEUE, "mail").get("observedGeneration") == 2)
        cluster.silent.pop("mailers").set()
        await leader.until(lambda: condition(cluster, "ScalingActive") == ("False", "ScalingOff"))
        assert "set_scale" not in cluster.calls


async def test_a_right_on_deployments_that_is_missing_is_said(cluster: MemoryCluster, database_url: str) -> None:
    cluster.refuses = frozenset({"scale"})
    async with leading(cluster, database_url) as leader:
        await leader.until(lambda: condition(cluster, "ScalingActive") == ("False", "NotPermitted"))
        cluster.refuses = frozenset()
        await leader.until(lambda: condition(cluster, "ScalingActive") == ("True", "ByDemand"))
