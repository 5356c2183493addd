"""Caps of intake that follow from the limits of actors."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.errors import ConfigurationError
from tidegate.flow.propagation import byte_cap, check_propagation, message_cap
from tidegate.model.capacity import ActorLimits


def limits(messages: int | None = None, size: int | None = None) -> ActorLimits:
    return ActorLimits(max_messages=messages, max_payload_bytes=size)


def test_along_a_path_the_smallest_pool_counts() -> None:
    assert message_cap([[limits(20), limits(4)]]) == 4
    assert message_cap([[limits(4), limits(20)]]) == 4


def test_over_paths_the_distinct_pools_are_summed() -> None:
    assert message_cap([[limits(3)], [limits(5)]]) == 8
    assert message_cap([[limits(12)], [limits(12)]]) == 24


def test_a_shared_pool_counts_once() -> None:
    database, router = limits(12), limits(20)
    assert message_cap([[database], [database]]) == 12
    assert message_cap([[router, limits(30)], [router, limits(30)]]) == 20
    assert message_cap([[router, limits(4)], [router, limits(5)]]) == 9
    assert message_cap([[router, limits(4)], [router]]) == 20
    assert message_cap([[database, database]]) == 12
    # shared across routers: the two actors of it together 12, and 3 beside them
    assert message_cap([[limits(10), database], [limits(10), database], [limits(3)]]) == 15


def test_pools_that_overlap_are_shared_out_as_well_as_can_be() -> None:
    one, two, left, right = limits(1), limits(1), limits(1), limits(1)
    # the first router's message can leave the left pool to the second router's, which has no other
    assert message_cap([[one, left], [one, right], [two, left]]) == 2


def test_each_field_needs_every_actor_to_be_finite_in_it() -> None:
    bounded, messages_only = limits(3, 100), limits(5)
    assert message_cap([[bounded], [messages_only]]) == 8
    assert byte_cap([[bounded], [messages_only]]) is None
    assert byte_cap([[bounded], [messages_only, limits(None, 50)]]) == 150
    assert message_cap([[bounded], []]) is None
    assert message_cap([[bounded], [limits()]]) is None


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3), st.lists(st.integers(1, 4), min_size=1, max_size=3), st.data()
)
@settings(max_examples=60)
def test_the_cap_is_the_most_that_can_run_at_once(outer: list[int], inner: list[int], data: st.DataObject) -> None:
    routers, actors = [limits(each) for each in outer], [limits(each) for each in inner]
    paths = data.draw(
        st.lists(st.tuples(st.sampled_from([None, *routers]), st.sampled_from([None, *actors])), min_size=1, max_size=4)
    )
    chosen = [[each for each in path if each is not None] for path in paths]
    if not all(chosen):
        assert message_cap(chosen) is None
        return
    most = 0
    for running in product(range(5), repeat=len(chosen)):
        used = {
            pool: sum(count for count, path in zip(running, chosen, strict=True) if pool in path)
            for pool in [*routers, *actors]
        }
        if all(count <= (pool.max_messages or 0) for pool, count in used.items()):
            most = max(most, sum(running))
    assert message_cap(chosen) == most


def test_the_switch_is_on_or_off() -> None:
    assert [check_propagation("on"), check_propagation("off")] == ["on", "off"]
    for value in (True, None, "ON", ""):
        with pytest.raises(ConfigurationError, match="actor_limits_propagation must be 'on' or 'off'"):
            check_propagation(value)
