"""What a worker says of itself over HTTP."""

import asyncio
import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

from prometheus_client.parser import text_string_to_metric_families

from tests.postgres.workers_at_work import DEADLINE, Worker, until

ANYWHERE = "127.0.0.1:0"
_DIRECTLY = build_opener(ProxyHandler({}))


def get_at_once(port: int, path: str) -> tuple[int, str]:
    """Ask, from whatever thread."""
    try:
        with _DIRECTLY.open(f"http://127.0.0.1:{port}{path}", timeout=DEADLINE) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


async def port_of(worker: Worker) -> int:
    """Return where it answers, once it does."""

    async def look() -> int:
        assert worker.runtime.health is not None
        return worker.runtime.health.port

    return await until(look)


async def get(worker: Worker, path: str) -> tuple[int, str]:
    return await asyncio.to_thread(get_at_once, await port_of(worker), path)


async def health(worker: Worker) -> tuple[int, dict[str, Any]]:
    status, text = await get(worker, "/healthz")
    return status, json.loads(text)


async def readiness(worker: Worker) -> int:
    return (await get(worker, "/readyz"))[0]


async def metrics(worker: Worker) -> dict[tuple[str, ...], float]:
    """Return every metric by its name without the common prefix, and the values of its labels by their names."""
    status, text = await get(worker, "/metrics")
    assert status == 200
    return {
        (sample.name.removeprefix("tidegate_worker_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
