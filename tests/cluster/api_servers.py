"""The API server by HTTP, through ``kubectl proxy``: no client judges what it is given before it does."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tidegate.model.documents import API_VERSION

CRDS = Path(__file__).resolve().parents[2] / "crds"
"""Folder of the resource definitions."""

TIMEOUT = 30
"""Seconds for one request."""


class ApiServer:
    """Requests to one API server, with the rights of an administrator."""

    def __init__(self, url: str) -> None:
        self.url = url

    @classmethod
    @contextmanager
    def by_proxy(cls) -> Iterator[Self]:
        """Start ``kubectl proxy`` on a free port; it ends with the block."""
        with subprocess.Popen(["kubectl", "proxy", "--port=0"], stdout=subprocess.PIPE, text=True) as proxy:
            try:
                assert proxy.stdout is not None
                started = re.search(r"127\.0\.0\.1:\d+", proxy.stdout.readline())
                assert started, "kubectl proxy did not start"
                yield cls(f"http://{started[0]}")
            finally:
                proxy.terminate()

    def request(self, method: str, path: str, body: object = None, content: str = "application/json") -> Any:
        """What the server answers, decoded; a refusal is its ``Status``."""
        data = None if body is None else json.dumps(body).encode()
        # the address of a proxy on this machine
        request = Request(self.url + path, data=data, method=method, headers={"Content-Type": content})  # noqa: S310
        try:
            with urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310
                return json.load(answer)
        except HTTPError as refusal:
            return json.load(refusal)

    def try_out(self, plural: str, document: dict[str, Any]) -> Any:
        """Judge a new object, strictly, and keep nothing of it."""
        options = "dryRun=All&fieldValidation=Strict"
        return self.request("POST", f"/apis/{API_VERSION}/namespaces/default/{plural}?{options}", document)
