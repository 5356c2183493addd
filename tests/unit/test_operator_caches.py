"""The cache under every order in which a watch and lists may tell of the same objects."""

from __future__ import annotations

import pytest

from tests.unit.operator_objects import raw
from tidegate_operator.caches import ObjectCache
from tidegate_operator.resources import Kind


@pytest.fixture
def cache() -> ObjectCache:
    return ObjectCache()


def dirty(cache: ObjectCache) -> set[str]:
    return cache.take_dirty()[Kind.LIMIT]


def test_a_new_object_is_dirty_once(cache: ObjectCache) -> None:
    cache.see(Kind.LIMIT, raw())
    assert cache.woken.is_set()
    assert dirty(cache) == {"vendor-x"}
    assert dirty(cache) == set()


def test_the_echo_of_a_status_write_is_not_dirty(cache: ObjectCache) -> None:
    cache.see(Kind.LIMIT, raw())
    dirty(cache)
    cache.see(Kind.LIMIT, raw(version="2", status={"running": 1}))
    assert dirty(cache) == set()
    found = cache.get("u1")
    assert found is not None
    assert found.status == {"running": 1}


def test_another_generation_is_dirty_under_both_keys(cache: ObjectCache) -> None:
    cache.see(Kind.LIMIT, raw(spec={"key": "a", "weight": 1}))
    dirty(cache)
    cache.see(Kind.LIMIT, raw(version="2", generation=2, spec={"key": "b", "weight": 1}))
    assert dirty(cache) == {"a", "b"}


def test_an_older_version_changes_nothing(cache: ObjectCache) -> None:
    cache.see(Kind.LIMIT, raw(version="10", generation=3))
    cache.see(Kind.LIMIT, raw(version="9", generation=2))
    found = cache.get("u1")
    assert found is not None
    assert found.generation == 3


def test_a_deleted_object_is_dirty_and_stays_deleted(cache: ObjectCache) -> None:
    cache.see(Kind.LIMIT, raw())
    mark = cache.begin_list()
    dirty(cache)
    cache.see(Kind.LIMIT, raw(version="2"), deleted=True)
    assert dirty(cache) == {"vendor-x"}
    # a list that began before the deletion still has it
    cache.replace(Kind.LIMIT, [raw()], mark)
    assert cache.get("u1") is None


def test_what_a_list_does_not_have_is_gone(cache: ObjectCache) -> None:
    cache.see(Kind.LIMIT, raw("u1", name="one"))
    cache.see(Kind.LIMIT, raw("u2", name="two"))
    cache.see(Kind.QUEUE, raw("q1", name="mail", spec={}))
    dirty(cache)
    cache.replace(Kind.LIMIT, [raw("u2", name="two")], cache.begin_list())
    assert dirty(cache) == {"one"}
    assert cache.get("u1") is None
    assert cache.get("q1") is not None


def test_what_a_list_left_out_by_mistake_comes_back(cache: ObjectCache) -> None:
    cache.see(Kind.LIMIT, raw())
    cache.replace(Kind.LIMIT, [], cache.begin_list())
    cache.replace(Kind.LIMIT, [raw()], cache.begin_list())
    assert cache.get("u1") is not None


def test_what_came_while_a_list_was_made_is_not_gone(cache: ObjectCache) -> None:
    mark = cache.begin_list()
    cache.see(Kind.LIMIT, raw("u1"))
    cache.replace(Kind.LIMIT, [], mark)
    assert cache.get("u1") is not None


def test_a_list_of_one_namespace_says_nothing_of_others(cache: ObjectCache) -> None:
    cache.see(Kind.LIMIT, raw("u1", namespace="one"))
    cache.see(Kind.LIMIT, raw("u2", namespace="two"))
    cache.replace(Kind.LIMIT, [], cache.begin_list(), "one")
    assert cache.get("u1") is None
    assert cache.get("u2") is not None


def test_a_watch_that_began_anew_is_noticed(cache: ObjectCache) -> None:
    cache.see(Kind.LIMIT, raw("u1"), listed=True)
    assert not cache.relisted
    cache.see(Kind.LIMIT, raw("u2", name="two"), listed=True)
    assert not cache.relisted
    cache.see(Kind.LIMIT, raw("u1"), listed=True)
    assert cache.relisted


def test_an_object_that_cannot_be_read_keeps_its_place_and_says_why(cache: ObjectCache) -> None:
    cache.see(Kind.LIMIT, raw(spec={"maxRunning": "many", "burst": 1}))
    found = cache.get("u1")
    assert found is not None
    assert found.manifest is None
    assert "spec.maxRunning" in found.problem
    assert "spec.burst" in found.problem
