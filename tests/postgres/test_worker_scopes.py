"""Workers of random scopes on a real database: no budget is exceeded, nothing is lost, nothing waits for ever."""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from tests.postgres.workers_at_work import DEADLINE, at_work, no_drift, until
from tidegate import ActorLimits, App, BackpressurePolicy, Channel, MessageLimits, Router
from tidegate.testing import RecordingPolicy

JOBS = 150
STRATEGIES: tuple[tuple[Any, ...], ...] = (
    ("native", "channel_pause"),
    ("channel_pause",),
    ("worker_pause",),
    ("resubscribe",),
    (),
)


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[App]:
    async with App(database_url) as app:
        yield app


class World:
    """Actors of random routers and channels, which check every budget whenever one of them begins."""

    def __init__(self, app: App, seed: int) -> None:
        self.dice = dice = Random(seed)  # noqa: S311 - a history that repeats
        self.running: list[tuple[tuple[ActorLimits, ...], int]] = []
        self.runs = 0
        pools = [self.actor_limits() for _ in range(3)]
        self.policies = [RecordingPolicy(1), RecordingPolicy(3)]
        routers = [Router(limits=dice.choice([None, *pools]), limit_policies=self.some_policies()) for _ in range(2)]
        channels = [
            Channel(name, limits=dice.choice([None, self.message_limits()]), limit_policies=self.some_policies())
            for name in ("a", "b")
        ]
        self.actors = []
        for number in range(4):
            router, limits = dice.choice(routers), dice.choice([None, *pools])
            path = tuple({each for each in (router._scope.limits, limits) if each is not None})
            self.actors.append(
                router.actor(
                    channel=dice.choice(channels),
                    name=f"actor{number}",
                    limits=limits,
                    limit_policies=self.some_policies(),
                )(self.code(path, is_async=number < 3))
            )
        for router in routers:
            app.include_router(router)
        self.worker_limits = self.message_limits()
        self.worker_policies = self.some_policies()
        self.propagation = dice.choice(["on", "off"])
        self.loop = asyncio.get_running_loop()
        self.usage: Any = None

    def actor_limits(self) -> ActorLimits:
        return ActorLimits(
            max_messages=self.dice.choice([None, 1, 2, 5]), max_payload_bytes=self.dice.choice([None, 60, 300])
        )

    def message_limits(self) -> MessageLimits:
        policy = BackpressurePolicy(
            strategies=self.dice.choice(STRATEGIES), resume_at=self.dice.choice([0, 0.5, 0.75, 1])
        )
        return MessageLimits(
            max_messages=self.dice.choice([None, 1, 3, 10]),
            max_payload_bytes=self.dice.choice([None, 60, 300]),
            backpressure=policy,
        )

    def some_policies(self) -> tuple[RecordingPolicy, ...]:
        return tuple(policy for policy in self.policies if self.dice.random() < 0.15)

    def code(self, path: tuple[ActorLimits, ...], *, is_async: bool) -> Any:
        async def coroutine(text: str) -> None:
            self.enter(path, len(text))
            try:
                for _ in range(self.dice.randrange(5)):
                    await asyncio.sleep(0)
            finally:
                self.leave(path, len(text))

        def function(text: str) -> None:
            asyncio.run_coroutine_threadsafe(coroutine(text), self.loop).result(DEADLINE)

        return coroutine if is_async else function

    def enter(self, path: tuple[ActorLimits, ...], size: int) -> None:
        self.running.append((path, size + len('{"text": ""}')))
        self.runs += 1
        for limits in {limits for each, _ in self.running for limits in each}:
            inside = [size for each, size in self.running if limits in each]
            assert len(inside) <= (limits.max_messages or JOBS)
            assert len(inside) == 1 or sum(inside) <= (limits.max_payload_bytes or sum(inside))
        for pool in self.usage():
            assert pool.messages <= (pool.max_messages or JOBS)
            assert pool.messages == 1 or pool.bytes <= (pool.max_bytes or pool.bytes)

    def leave(self, path: tuple[ActorLimits, ...], size: int) -> None:
        self.running.remove((path, size + len('{"text": ""}')))


@pytest.mark.parametrize("seed", range(8))
async def test_a_worker_of_random_scopes_keeps_every_budget_and_runs_everything(app: App, seed: int) -> None:
    world = World(app, seed)
    dice = world.dice
    options: dict[str, Any] = {
        "limits": world.worker_limits,
        "limit_policies": world.worker_policies,
        "actor_limits_propagation": world.propagation,
        "queues": ("a", "b"),
    }
    await app.engine.execute("select * from tidegate.change_limit('k', '{\"max_running\": 2}')")
    async with at_work(app, poll=0.2, **options) as worker:
        world.usage = worker.runtime.flow.usage
        for _ in range(JOBS // 5):
            using = dice.choice(world.actors).using(
                queue=dice.choice(["a", "b"]),
                limit_key=dice.choice([None, None, "k"]),
                priority=dice.choice([0, 0, 5]),
                max_attempts=1,
            )
            await using.enqueue_many(
                [{"text": "x" * dice.choice([1, 20, 40, 48, 49, 100, 288, 400])} for _ in range(5)]
            )
            if dice.random() < 0.1:
                worker.runtime.pause()
                await asyncio.sleep(0)
                worker.runtime.resume()
        await until(lambda: all_ended(app))
        flow = worker.runtime.flow
        assert all(pool.messages == pool.bytes == 0 for pool in flow.usage())
        assert flow.backpressure.waiting() == []
        assert [flow.backpressure.reasons(queue) for queue in ("a", "b")] == [[], []]
        assert await worker.drained() == 0
    failed = await app.engine.fetch("select distinct error from tidegate.history where state <> 'succeeded'")
    assert [row["error"] for row in failed] == []
    assert world.runs == JOBS
    for policy in world.policies:
        assert sorted(policy.seen("granted")) == sorted(policy.seen("released"))
        assert policy.running == []
    await no_drift(app)


async def all_ended(app: App) -> bool:
    return bool(await app.engine.fetchval("select count(*) from tidegate.history") == JOBS)
