"""The operator as a process of this machine, with the rights of a kubeconfig, on a database of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

from tests.cluster.kubectls import Kubectl
from tests.cluster.waiting import eventually

QUICK = ("--drift-every", "2s", "--numbers-every", "500ms", "--lease-name", "tidegate")


class OperatorProcess:
    """One process. ``namespace`` is the one that it watches, where its Lease lies too; None for the whole cluster."""

    def __init__(
        self, folder: Path, url_file: Path, namespace: str | None, *options: str, kubeconfig: Path | None
    ) -> None:
        self.port = free_port()
        self.log = folder / f"operator-{self.port}.log"
        where = ("--namespace", namespace, "--cluster-id", namespace) if namespace else ()
        command = [sys.executable, "-m", "tidegate_operator", "run", "--database-url-file", str(url_file)]
        command += ["--port", str(self.port), "--lease-namespace", namespace or "default", *where, *QUICK, *options]
        environment = {**os.environ, "PYTHONSAFEPATH": "1"}
        if kubeconfig is not None:
            environment["KUBECONFIG"] = str(kubeconfig)
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)

    @property
    def said(self) -> str:
        """What it logged."""
        return self.log.read_text()

    def asked(self, path: str) -> tuple[int, str]:
        """What it answers over HTTP; 0 while it does not."""
        try:
            with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except OSError as error:
            return getattr(error, "code", 0), str(error)

    def metric(self, name: str) -> float:
        """The value of a metric, by its name and labels as they are shown; 0 where it is not."""
        lines = self.asked("/metrics")[1].splitlines()
        return next((float(line.split()[-1]) for line in lines if line.rpartition(" ")[0] == name), 0.0)

    def memory(self) -> int:
        """Most bytes of memory that it has had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))

    def leads(self) -> None:
        """Wait until it has taken office."""
        self.until_said("took office")

    def until_said(self, words: str) -> None:
        """Wait for words in its log."""

        def said() -> bool:
            assert self.process.poll() is None, self.said
            return words in self.said

        eventually(said, f"the operator says {words!r}")

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(how)
        return self.ended()

    def ended(self) -> int:
        """Wait for its end and return the exit code."""
        return self.process.wait(60)


@contextmanager
def operator(
    folder: Path, database_url: str, namespace: str | None, *options: str, kubeconfig: Path | None = None
) -> Iterator[OperatorProcess]:
    """Run an operator while the block runs."""
    url_file = folder / "database-url"
    url_file.write_text(database_url)
    running = OperatorProcess(folder, url_file, namespace, *options, kubeconfig=kubeconfig)
    try:
        yield running
    finally:
        with suppress(ProcessLookupError):
            running.process.kill()
        running.process.wait()


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return int(listener.getsockname()[1])


class Relay:
    """Bytes to the API server and back, which can be cut off, or swallowed as by a network that drops packets."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._writers: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._refusing = False
        self._loop = asyncio.get_running_loop()

    def cut(self) -> None:
        """Break every connection and refuse new ones."""
        self._refusing = True
        self._loop.call_soon_threadsafe(self._break)

    def swallow(self) -> None:
        """Let nothing through and say nothing."""
        self._loop.call_soon_threadsafe(self._flowing.clear)

    def resume(self) -> None:
        """Let everything through again."""
        self._refusing = False
        self._loop.call_soon_threadsafe(self._flowing.set)

    def _break(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a connection."""
        if self._refusing:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection(self._host, self._port)
        self._writers |= {writer, back}
        await asyncio.gather(self._pump(reader, back), self._pump(there, writer))
        self._writers -= {writer, back}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


@contextmanager
def relayed(folder: Path) -> Iterator[tuple[Relay, Path]]:
    """Yield a relay to the API server, in a thread of its own, and a kubeconfig that goes through it."""
    access = read_access()
    place = urlsplit(access["clusters"][0]["cluster"]["server"])
    started: Future[tuple[Relay, int]] = Future()
    stop = threading.Event()

    async def serve() -> None:
        relay = Relay(place.hostname or "", place.port or 443)
        async with await asyncio.start_server(relay.serve, "127.0.0.1", 0) as server:
            started.set_result((relay, server.sockets[0].getsockname()[1]))
            await asyncio.to_thread(stop.wait)
            relay.resume()
            relay.cut()
            await asyncio.sleep(0)

    thread = threading.Thread(target=asyncio.run, args=[serve()])
    thread.start()
    try:
        relay, port = started.result(10)
        access["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
        kubeconfig = folder / "relayed.kubeconfig"
        kubeconfig.write_text(json.dumps(access))
        yield relay, kubeconfig
    finally:
        stop.set()
        thread.join(10)


def read_access() -> dict[str, Any]:
    """The kubeconfig of the tests, whole."""
    found: dict[str, Any] = json.loads(
        subprocess.run(
            ["kubectl", "config", "view", "--minify", "--flatten", "--raw", "--output=json"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    )
    return found


def account(folder: Path, kubectl: Kubectl, rules: Sequence[Mapping[str, Any]]) -> Path:
    """Make a service account with these rights in the namespace, and return a kubeconfig for it."""
    kubectl("create", "serviceaccount", "operator")
    metadata = {"name": "operator"}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": rules}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator"},
        "subjects": [{"kind": "ServiceAccount", "name": "operator"}],
    }
    kubectl.apply(role, binding)
    access = read_access()
    access["users"][0]["user"] = {"token": kubectl("create", "token", "operator").strip()}
    kubeconfig = folder / "account.kubeconfig"
    kubeconfig.write_text(json.dumps(access))
    return kubeconfig
