"""What the workers of a soak run: ``tidegate worker tests.postgres.soaking.app:app``."""

import asyncio
import os
import random

from tidegate import App
from tidegate.audit.recorder import record_run

QUEUES = ("soak-priority", "soak-fair")

app = App()

WORKER = os.environ.get("TIDEGATE_WORKER_NAME", "somebody")


class UnluckyError(Exception):
    """An attempt that fails on purpose."""


@app.actor(channel="soak-priority", max_attempts=3)
async def quick(item: str) -> None:
    """Take next to no time."""
    await record_run(app.engine, item, WORKER)


@app.actor(channel="soak-priority", max_attempts=3)
async def slow(item: str) -> None:
    """Take long enough to be interrupted."""
    await asyncio.sleep(random.uniform(0.05, 0.4))  # noqa: S311 - no secret
    await record_run(app.engine, item, WORKER)


@app.actor(channel="soak-fair", max_attempts=3)
async def unlucky(item: str) -> None:
    """Fail one attempt in ten."""
    await asyncio.sleep(random.uniform(0.0, 0.05))  # noqa: S311 - no secret
    if random.random() < 0.1:  # noqa: S311 - no secret
        raise UnluckyError
    await record_run(app.engine, item, WORKER)


@app.actor(channel="soak-fair", max_attempts=3)
async def steady(item: str) -> None:
    """Take a little time."""
    await asyncio.sleep(0.02)
    await record_run(app.engine, item, WORKER)
