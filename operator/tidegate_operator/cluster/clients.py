"""The way to the API server: inside a pod by its service account, elsewhere by a kubeconfig."""

from __future__ import annotations

import os
from collections.abc import Awaitable
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, TypeVar

import aiohttp
from kubernetes.aio import client, config

from tidegate.errors import ConfigurationError
from tidegate_operator.errors import ClusterRefused, ClusterUnavailable

T = TypeVar("T")

REQUEST_TIMEOUT = 10.0
"""Seconds for one request; the client's own default is 300."""

_TRY_LATER = frozenset({408, 410, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Access:
    """How another client of this process reaches the same API server."""

    server: str
    ca_path: str | None
    certificate_path: str | None
    key_path: str | None
    token: str | None
    insecure: bool


async def load_configuration() -> client.Configuration:
    """Read where the API server is and who we are.

    Raises:
        ConfigurationError: neither a service account nor a kubeconfig is here.
    """
    configuration = client.Configuration()
    try:
        if os.environ.get("KUBERNETES_SERVICE_HOST") and not os.environ.get("KUBECONFIG"):
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            await config.load_kube_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except config.ConfigException as error:
        raise ConfigurationError(
            f"no way to an API server: {error}; run in a pod with a service account, or set KUBECONFIG"
        ) from error
    return configuration


async def read_access(configuration: client.Configuration) -> Access:
    """Return today's access: a token that was rotated is read again."""
    hook: Any = configuration.refresh_api_key_hook
    if hook is not None:
        found = hook(configuration)
        if isawaitable(found):
            await found
    token = (configuration.api_key or {}).get("BearerToken") or (configuration.api_key or {}).get("authorization")
    return Access(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        certificate_path=configuration.cert_file,
        key_path=configuration.key_file,
        token=token.removeprefix("Bearer ").removeprefix("bearer ").strip() if token else None,
        insecure=not configuration.verify_ssl,
    )


async def answer(request: Awaitable[T], what: str) -> T:
    """Wait for an answer of the API server, in the errors of this package; ``what`` names the request.

    Raises:
        ClusterUnavailable: no usable answer.
        ClusterRefused: the server said no.
    """
    try:
        return await request
    except client.ApiException as error:
        if error.status in _TRY_LATER or not error.status:
            raise ClusterUnavailable(f"{what}: the API server answers {error.status} {error.reason}") from error
        raise ClusterRefused(f"{what}: the API server answers {error.status} {error.reason}", error.status) from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise ClusterUnavailable(f"{what}: {str(error) or type(error).__name__}") from error
