"""Liveness, readiness and metrics over HTTP, on the event loop that does the work: one that hangs does not answer.

Liveness is this loop and the reconciler, never the database: a restart cannot mend that one. Readiness is the watch.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from tidegate_operator.metrics import Metrics

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@asynccontextmanager
async def serving(
    port: int, metrics: Metrics, alive: Callable[[], str | None], ready: Callable[[], str | None]
) -> AsyncIterator[int]:
    """Serve while the block runs, and yield the port.

    Args:
        port: to listen on, on every address; 0 takes a free one.
        metrics: shown on /metrics.
        alive: what /healthz says is wrong, None where nothing is.
        ready: the same for /readyz.
    """

    def probe(judge: Callable[[], str | None]) -> Callable[[web.Request], object]:
        async def answer(_: web.Request) -> web.Response:
            problem = judge()
            return web.Response(text=f"{problem or 'ok'}\n", status=503 if problem else 200)

        return answer

    async def show(_: web.Request) -> web.Response:
        return web.Response(body=metrics.text(), headers={"Content-Type": METRICS_TYPE})

    app = web.Application()
    app.router.add_get("/healthz", probe(alive))  # type: ignore[arg-type]
    app.router.add_get("/readyz", probe(ready))  # type: ignore[arg-type]
    app.router.add_get("/metrics", show)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, port=port)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
