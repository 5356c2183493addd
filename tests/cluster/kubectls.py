"""Kubectl as a person uses it: what it prints, and how it ends."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

TIMEOUT = 120
"""Seconds for one command."""

WATCH_TIMEOUT = f"--request-timeout={TIMEOUT}s"


class KubectlError(AssertionError):
    """A command of kubectl failed; the message is what it said."""


class Kubectl:
    """Runs kubectl in one namespace."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        """Return what a command prints; raise `KubectlError` with what it says when it fails."""
        done = subprocess.run(
            ["kubectl", "--namespace", self.namespace, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        if done.returncode != 0:
            raise KubectlError(done.stderr or done.stdout)
        return done.stdout

    @contextmanager
    def watching(self, *arguments: str) -> Iterator[Iterator[str]]:
        """A line for each object that there is and each write of one from then on; they end after `WATCH_TIMEOUT`."""
        command = ["kubectl", "--namespace", self.namespace, "get", *arguments, "--watch", WATCH_TIMEOUT]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:
            try:
                assert watch.stdout is not None
                yield iter(watch.stdout)
            finally:
                watch.kill()

    def apply(self, *documents: dict[str, Any]) -> str:
        """Apply objects."""
        return self("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))

    def object(self, *arguments: str) -> Any:
        """What ``kubectl get -o json`` returns."""
        return json.loads(self("get", *arguments, "--output=json"))

    def table(self, *arguments: str) -> list[dict[str, str]]:
        """What ``kubectl get`` shows, by the columns' headings; cells without a blank in them."""
        heading, *rows = self("get", *arguments).splitlines()
        return [dict(zip(heading.split(), row.split(), strict=True)) for row in rows]
