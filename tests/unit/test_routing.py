"""Declaring actors, routers and apps; no database."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

import pytest

from tidegate import (
    App,
    Channel,
    ConfigurationError,
    InvalidJob,
    InvalidName,
    Router,
)
from tidegate.routing.actors import ActorData


def star(*many: int) -> None: ...
def stars(**named: int) -> None: ...
def slash(first: int, /) -> None: ...


@pytest.mark.parametrize(
    ("function", "hint"), [(star, r"\*many.*a list"), (stars, r"\*\*named.*a dict"), (slash, "first.*drop the '/'")]
)
def test_arguments_without_a_name_of_their_own_are_refused_when_declared(
    function: Callable[..., None], hint: str
) -> None:
    with pytest.raises(ConfigurationError, match=hint):
        Router().actor(channel="q")(function)


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("function", [generator, async_generator])
def test_generators_are_refused(function: Callable[[], Any]) -> None:
    with pytest.raises(ConfigurationError, match="generator"):
        Router().actor(channel="q")(function)


@pytest.mark.parametrize("thing", [int, functools.partial(star), "text"])
def test_only_functions_can_be_actors(thing: Any) -> None:
    with pytest.raises(ConfigurationError, match="must be a function"):
        Router().actor(channel="q", name="thing")(thing)


class Unreadable:
    """Nothing that pydantic knows."""


def test_annotations_are_resolved_when_a_worker_is_built_or_a_job_enqueued() -> None:
    def later(argument: NotDefinedAnywhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
    def never(argument: Unreadable) -> None: ...

    for function, reason in ((later, "NotDefinedAnywhere"), (never, "Unreadable")):
        data = Router().actor(channel="q")(function).data
        with pytest.raises(ConfigurationError, match=f"annotations of actor '{function.__name__}'.*{reason}"):
            data.check()


def test_calling_an_actor_runs_its_function() -> None:
    router = Router()

    @router.actor(channel="q")
    def double(number: int) -> int:
        """Double it."""
        return 2 * number

    assert double(4) == 8
    assert double.__doc__ == "Double it."
    assert inspect.signature(double) == inspect.signature(double.data.function)
    assert_type(double(4), int)


async def test_calling_an_async_actor_gives_its_coroutine() -> None:
    router = Router()

    @router.actor(channel=Channel("q"), name="halve!", max_attempts=2, timeout=timedelta(seconds=3), priority=-4)
    async def halve(number: int) -> float:
        return number / 2

    assert await halve(4) == 2.0
    data = halve.data
    assert (data.name, data.queue, data.is_async) == ("halve!", "q", True)
    assert (data.options.max_attempts, data.options.timeout, data.options.priority) == (2, timedelta(seconds=3), -4)
    assert data.qualified_name.endswith("test_calling_an_async_actor_gives_its_coroutine.<locals>.halve")


def test_an_editor_knows_what_an_actor_takes() -> None:
    router = Router()

    @router.actor(channel="q")
    def double(number: int) -> int:
        return 2 * number

    def read_by_the_type_checker() -> None:
        double("text")  # type: ignore[arg-type]
        double.using(prioritY=1)  # type: ignore[call-overload]

    assert callable(read_by_the_type_checker)


def first_actor() -> None: ...
def second_actor() -> None: ...


def test_two_actors_of_one_name_are_refused_and_both_functions_named() -> None:
    one, other = Router(), Router()
    one.actor(channel="a", name="same")(first_actor)
    other.actor(channel="b", name="same")(second_actor)
    module = first_actor.__module__
    with pytest.raises(ConfigurationError) as caught:
        App(routers=[one, other])
    assert f"{module}.first_actor" in str(caught.value)
    assert f"{module}.second_actor" in str(caught.value)

    app = App()
    app.actor(channel="a", name="same")(first_actor)
    with pytest.raises(ConfigurationError, match="two actors are called 'same'"):
        app.actor(channel="a", name="same")(second_actor)
    assert app.actors["same"].function is first_actor

    twice = Router()
    twice.actor(channel="a", name="same")(first_actor)
    twice.actor(channel="a", name="same")(second_actor)
    with pytest.raises(ConfigurationError, match=r"first_actor and .*second_actor"):
        App().include_router(twice)


def test_a_router_belongs_to_one_app_and_its_later_actors_too() -> None:
    router = Router()
    app = App(routers=[router])
    router.actor(channel="later")(first_actor)
    assert list(app.actors) == ["first_actor"]
    assert app.queues == ("later",)
    with pytest.raises(ConfigurationError, match="belongs to one app"):
        App().include_router(router)
    with pytest.raises(TypeError):
        app.actors["x"] = app.actors["first_actor"]  # type: ignore[index]


async def test_an_actor_without_an_app_says_so() -> None:
    handle = Router().actor(channel="q")(first_actor)
    with pytest.raises(ConfigurationError, match=r"'first_actor' belongs to no app yet; call app\.include_router"):
        await handle.enqueue()


async def test_an_app_without_a_database_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEGATE_DATABASE_URL", raising=False)
    app = App()
    handle = app.actor(channel="q")(first_actor)
    with pytest.raises(ConfigurationError, match=r"TIDEGATE_DATABASE_URL.*using\(session=\)"):
        await handle.enqueue()
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", "postgresql://user:secret@host/name")
    assert "secret" not in repr(app.engine)
    assert "secret" not in repr(app)


@pytest.mark.parametrize(("channel", "error"), [("", InvalidName), (" q", InvalidName), (7, ConfigurationError)])
def test_a_channel_is_a_queues_name(channel: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"address|channel"):
        Router().actor(channel=channel)


BAD_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"limit_key": " k"}, "limit_key"),
    ({"group_key": "k\n"}, "group_key"),
    ({"job_key": ""}, "job_key"),
    ({"queue": "q\0"}, "queue"),
    ({"priority": 40_000}, "priority"),
    ({"priority": True}, "priority"),
    ({"priority": 1.0}, "priority"),
    ({"max_attempts": 0}, "max_attempts"),
    ({"timeout": 5}, "timeout"),
    ({"timeout": timedelta(0)}, "timeout"),
    ({"delay": timedelta(seconds=-1)}, "delay"),
    ({"delay": timedelta(1), "run_at": datetime(2026, 1, 1, tzinfo=UTC)}, "delay"),
    ({"run_at": datetime(2026, 1, 1)}, "run_at"),  # noqa: DTZ001
    ({"expires": 5}, "expires"),
    ({"headers": {"a": 1}}, "headers"),
    ({"headers": {"a": "x" * 9000}}, "headers"),
]


@pytest.mark.parametrize(("options", "field"), BAD_OPTIONS, ids=[field for _, field in BAD_OPTIONS])
def test_bad_options_are_named_before_anything_is_sent(options: dict[str, Any], field: str) -> None:
    handle = App().actor(channel="q")(first_actor)
    with pytest.raises((InvalidJob, InvalidName)) as caught:
        handle.using(**options)
    assert caught.value.field == field


def test_an_unknown_option_is_a_type_error() -> None:
    handle = App().actor(channel="q")(first_actor)
    with pytest.raises(TypeError, match="prio"):
        handle.using(prio=1)  # type: ignore[call-overload]


def test_enqueuers_do_not_change() -> None:
    handle = App().actor(channel="q")(first_actor)
    base = handle.using(priority=1, limit_key="a")
    other = base.using(limit_key="b", priority=None)
    assert (base._options.priority, base._options.limit_key) == (1, "a")
    assert (other._options.priority, other._options.limit_key) == (1, "b")
    assert handle._options.priority is None


@pytest.mark.parametrize("size", [0, -1, True, 1.5, "1", 10**10])
def test_max_payload_bytes_is_checked(size: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_payload_bytes"):
        App(max_payload_bytes=size)


def test_actors_compare_by_identity() -> None:
    one = ActorData(name="a", channel=Channel("q"), function=first_actor)
    assert one != ActorData(name="a", channel=Channel("q"), function=first_actor)
    assert len({one, one}) == 1
