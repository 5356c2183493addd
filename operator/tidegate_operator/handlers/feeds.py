"""kopf watches both kinds and feeds a cache; it writes nothing, and decides nothing.

Settings as measured at 10,000 objects: without them kopf keeps two tasks an object for five seconds after each event,
looks for namespaces and peers that we gave it no right to see, and stays deaf for up to 21 s after an outage.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from typing import Any, Protocol

import kopf

from tidegate_operator.caches import ObjectCache
from tidegate_operator.resources import GROUP, VERSION, Kind


class AccessT(Protocol):
    """The way to the API server, as `tidegate_operator.cluster.clients.Access` has it."""

    @property
    def server(self) -> str: ...  # noqa: D102
    @property
    def ca_path(self) -> str | None: ...  # noqa: D102
    @property
    def certificate_path(self) -> str | None: ...  # noqa: D102
    @property
    def key_path(self) -> str | None: ...  # noqa: D102
    @property
    def token(self) -> str | None: ...  # noqa: D102
    @property
    def insecure(self) -> bool: ...  # noqa: D102


def quiet_settings() -> kopf.OperatorSettings:
    """Return kopf's settings for a watch that only listens."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.queueing.idle_timeout = 0.05
    settings.watching.chunk_size = 500
    settings.networking.error_backoffs = [1] * 120
    return settings


class _EveryTask(Collection[Any]):
    """Every task there is: kopf would cancel at its end whatever is younger than itself, another's work too."""

    def __contains__(self, task: object) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0


async def feed(
    cache: ObjectCache,
    access: Callable[[], Awaitable[AccessT]],
    namespace: str | None,
    stop: Any,
    on_started: Callable[[], None],
) -> None:
    """Watch until `stop` is set, or raise what ended the watch. Several may run on one event loop.

    Args:
        cache: what is fed.
        access: asked at the start and after each 401.
        namespace: the one to watch; None for the whole cluster.
        stop: an ``asyncio.Event``.
        on_started: called once kopf has taken SIGTERM and SIGINT for itself, so that the caller can take them back.
    """
    registry = kopf.OperatorRegistry()

    async def login(**_: Any) -> kopf.ConnectionInfo:
        found = await access()
        return kopf.ConnectionInfo(
            server=found.server,
            ca_path=found.ca_path,
            certificate_path=found.certificate_path,
            private_key_path=found.key_path,
            token=found.token,
            insecure=found.insecure,
        )

    kopf.on.login(registry=registry)(login)
    for kind in Kind:
        kopf.on.event(GROUP, VERSION, kind.plural, registry=registry, id=kind.plural)(_hearer(cache, kind))
    where: dict[str, Any] = {"namespaces": [namespace]} if namespace else {"clusterwide": True}
    # kopf would make one of the account's name, and a container's account has none; without peering nobody reads it
    where["identity"] = "tidegate-operator"
    tasks = await kopf.spawn_tasks(registry=registry, settings=quiet_settings(), stop_flag=stop, **where)
    on_started()
    await kopf.run_tasks(tasks, ignored=_EveryTask())


def _hearer(cache: ObjectCache, kind: Kind) -> Callable[..., Awaitable[None]]:
    async def hear(event: Mapping[str, Any], **_: Any) -> None:
        # type: None (listed), ADDED, MODIFIED, DELETED
        what = event["type"]
        cache.see(kind, event["object"], deleted=what == "DELETED", listed=what is None)

    return hear
