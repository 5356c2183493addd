"""A way to the API server that pods take and tests command: it holds a request, breaks watches off, or lies.

Pods speak HTTP to it, as a kubeconfig in a Secret tells them to; it speaks HTTPS to the API server with the token that
each request brought, so that the rights are those of the pod. It serves in a thread of its own.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import aiohttp
from aiohttp import web

from tests.cluster.operator_processes import read_access
from tests.cluster.waiting import PATIENCE

NOT_PASSED_ON = frozenset({"host", "connection", "transfer-encoding", "content-length", "accept-encoding"})
"""Headers that belong to one connection."""

TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
"""Where a pod finds its token."""

GONE = {
    "type": "ERROR",
    "object": {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "too old resource version: 1 (2)",
        "reason": "Expired",
        "code": 410,
    },
}
"""What the API server says in a watch that asks for a version which it has forgotten."""

WhenT = Literal["asked", "answered"]


@dataclass
class Hold:
    """The next request of this kind is held: before the API server hears of it, or once it has answered."""

    method: str
    path: str
    when: WhenT
    passing: int = 0
    """How many such requests pass before."""
    reached: threading.Event = field(default_factory=threading.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def matches(self, request: web.BaseRequest, when: WhenT) -> bool:
        return (
            when == self.when
            and request.method == self.method
            and re.search(self.path, request.path) is not None
            and not _is_watch(request)
        )


class ApiRelay:
    """Serves pods on this machine's address as they see it. Made in the thread that serves."""

    def __init__(self, upstream: str, session: aiohttp.ClientSession) -> None:
        self._upstream, self._session = upstream, session
        self._loop = asyncio.get_running_loop()
        self._holds: list[Hold] = []
        self._watches: dict[asyncio.Transport, str] = {}
        self._expiring: set[str] = set()
        self.url = ""
        self.lists_nothing = ""
        """The kind, as its plural, of which every list comes back empty."""
        self.empty_lists = 0
        """Lists that were emptied."""
        self.expired_watches = 0
        """Watches that were told 410."""

    def kubeconfig(self) -> str:
        """A kubeconfig for pods, with the rights of the service account that each has."""
        name = "relay"
        whole = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "clusters": [{"name": name, "cluster": {"server": self.url}}],
            "users": [{"name": name, "user": {"tokenFile": TOKEN}}],
        }
        return json.dumps(whole)

    @contextmanager
    def holding(self, method: str, path: str, when: WhenT, *, passing: int = 0) -> Iterator[Hold]:
        """Hold the next request of a method whose path matches, until the block ends; watches are never held.

        ``passing`` such requests pass before.
        """
        hold = Hold(method, path, when, passing)
        self._loop.call_soon_threadsafe(self._holds.append, hold)
        try:
            yield hold
        finally:
            self._loop.call_soon_threadsafe(self._let_go, hold)

    def expire_watches(self, *plurals: str) -> None:
        """Break off the watches of these kinds; the next one of each is told that its version is too old."""
        self._loop.call_soon_threadsafe(self._expire, plurals)

    def _expire(self, plurals: tuple[str, ...]) -> None:
        self._expiring |= set(plurals)
        for transport, plural in self._watches.items():
            if plural in plurals:
                transport.abort()

    def _let_go(self, hold: Hold) -> None:
        hold.over.set()
        if hold in self._holds:
            self._holds.remove(hold)

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        if _is_watch(request) and _plural(request) in self._expiring:
            self._expiring.remove(_plural(request))
            self.expired_watches += 1
            return web.Response(text=json.dumps(GONE) + "\n", content_type="application/json")
        body = await request.read()
        await self._wait(request, "asked")
        headers = {name: value for name, value in request.headers.items() if name.lower() not in NOT_PASSED_ON}
        asked = self._session.request(
            request.method, f"{self._upstream}{request.raw_path}", data=body, headers=headers, timeout=NO_TIMEOUT
        )
        async with asked as answer:
            if _is_watch(request):
                return await self._pass_on(request, answer)
            said = await answer.read()
        await self._wait(request, "answered")
        if request.method == "GET" and _plural(request) == self.lists_nothing:
            self.empty_lists += 1
            said = json.dumps(_emptied(json.loads(said))).encode()
        return web.Response(status=answer.status, body=said, content_type=answer.content_type)

    async def _wait(self, request: web.BaseRequest, when: WhenT) -> None:
        hold = next((each for each in self._holds if each.matches(request, when)), None)
        if hold is None:
            return
        if hold.passing:
            hold.passing -= 1
        else:
            self._holds.remove(hold)
            hold.reached.set()
            await hold.over.wait()

    async def _pass_on(self, request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        passed = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
        await passed.prepare(request)
        assert request.transport is not None
        transport, self._watches[request.transport] = request.transport, _plural(request)
        try:
            with suppress(OSError, aiohttp.ClientError):
                async for chunk in answer.content.iter_any():
                    await passed.write(chunk)
        finally:
            del self._watches[transport]
        return passed


NO_TIMEOUT = aiohttp.ClientTimeout(total=None)
"""A watch lasts as long as its client likes; the client has timeouts of its own."""


def _is_watch(request: web.BaseRequest) -> bool:
    return request.query.get("watch") == "true"


def _plural(request: web.BaseRequest) -> str:
    return request.path.rpartition("/")[2]


def _emptied(listed: dict[str, Any]) -> dict[str, Any]:
    listed["items"] = []
    listed["metadata"].pop("continue", None)
    return listed


@contextmanager
def api_relay() -> Iterator[ApiRelay]:
    """Run a relay while the block runs."""
    started: Future[ApiRelay] = Future()
    stop = threading.Event()
    thread = threading.Thread(target=_run, args=[started, stop])
    thread.start()
    try:
        yield started.result(PATIENCE)
    finally:
        stop.set()
        thread.join(PATIENCE)


def _run(started: Future[ApiRelay], stop: threading.Event) -> None:
    try:
        asyncio.run(_serve(started, stop))
    except Exception as error:
        if started.done():
            raise
        started.set_exception(error)


async def _serve(started: Future[ApiRelay], stop: threading.Event) -> None:
    cluster = read_access()["clusters"][0]["cluster"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=authority), limit=0)
    # a request without a body has no type of it either
    async with aiohttp.ClientSession(connector=connector, skip_auto_headers={"Content-Type"}) as session:
        relay = ApiRelay(cluster["server"], session)
        runner = web.ServerRunner(web.Server(relay.serve, access_log=None), shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, os.environ["TIDEGATE_TEST_MACHINE"], 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        relay.url = f"http://{host}:{port}"
        started.set_result(relay)
        await asyncio.to_thread(stop.wait)
        await runner.cleanup()
