"""``GET /healthz``, ``/readyz``, ``/metrics``: answered by threads, so that a busy loop is told of, not waited for.

``/healthz`` is 503 once the worker does not do its work any more: a limit policy failed, or a loop of its own ended. A
blocked event loop is named there with its actor and stays 200: it may come back, and a process whose loop stands still
for the stall limit ends itself. ``/readyz`` is 503 for a drained, empty worker and for nothing else: whoever scales
down looks there for one that has nothing to lose, so neither the database nor backpressure may show.
"""

import json
import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict
from socket import AF_INET6
from socketserver import TCPServer
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from tidegate.errors import ConfigurationError
from tidegate.model.addresses import Address
from tidegate.runtime.metrics import WorkerCollector
from tidegate.runtime.vitals import Vitals

log = logging.getLogger("tidegate.worker")

_Answer = tuple[str, dict[str, object]]


class HealthServer:
    """Answers on an address while a worker runs.

    Args:
        address: where to listen; port 0 is any free one.
        vitals: what to answer.
    """

    def __init__(self, address: Address, vitals: Vitals) -> None:
        self._address = address
        self._vitals = vitals
        registry = CollectorRegistry(auto_describe=False)
        registry.register(WorkerCollector(vitals))
        self._metrics: Any = make_wsgi_app(registry)
        self._server: ThreadingWSGIServer | None = None
        self.port = address.port

    def open(self) -> None:
        """Begin to answer.

        Raises:
            ConfigurationError: nobody can listen there; the message names the address.
        """
        kind = _Server6 if ":" in self._address.host else _Server
        try:
            server = self._server = kind((self._address.host, self._address.port), _Handler)
        except OSError as error:
            raise ConfigurationError(
                f"health_address {self._address} cannot be listened on: {error.strerror or type(error).__name__}; "
                "choose another port, or leave it out"
            ) from error
        self.port = server.server_port
        server.set_app(self._respond)
        threading.Thread(target=server.serve_forever, name="tidegate health", daemon=True).start()
        log.info("health is served", extra={"address": str(Address(self._address.host, self.port))})

    def close(self) -> None:
        """Answer no more."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def _respond(self, environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path = environment["PATH_INFO"]
        if path == "/metrics":
            answer: Iterable[bytes] = self._metrics(environment, start)
            return answer
        if path == "/healthz":
            status, told = self._health()
        elif path == "/readyz":
            status, told = self._readiness()
        else:
            status, told = "404 Not Found", {"paths": ["/healthz", "/readyz", "/metrics"]}
        start(status, [("Content-Type", "application/json")])  # a list of its own: the server adds to it
        return [json.dumps(told).encode() + b"\n"]

    def _health(self) -> _Answer:
        problems, blocked = self._vitals.problems(), self._vitals.blocked
        told: dict[str, object] = {"status": "failed" if problems else "ok", "problems": problems}
        if blocked is not None:
            told["blocked"] = asdict(blocked)
        return ("503 Service Unavailable" if problems else "200 OK"), told

    def _readiness(self) -> _Answer:
        if self._vitals.is_drained:
            return "503 Service Unavailable", {"status": "drained"}
        return "200 OK", {"status": "ready"}


class _Handler(WSGIRequestHandler):
    timeout = 5
    """Seconds that a client may take to ask."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Log nothing: probes come every few seconds."""


class _Server(ThreadingWSGIServer):
    def server_bind(self) -> None:
        """Bind without asking a name server what this host is called, which may take long."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[0], self.server_address[1]  # type: ignore[assignment]
        self.setup_environ()


class _Server6(_Server):
    address_family = AF_INET6
