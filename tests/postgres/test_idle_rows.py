"""Lanes, groups and keys of tenants that went away are dropped, and come back with their next job."""

from __future__ import annotations

import json

from tests.postgres.claimants import Claimant


async def sweep(claimant: Claimant, times: int = 2) -> None:
    """Let maintenance find that ten minutes have passed; what changed since the time before stays."""
    for _ in range(times):
        await claimant.connection.execute("update tidegate.queues set swept_at = '-infinity'")
        await claimant.connection.execute("call tidegate.maintain($1)", claimant.id)


async def rows(claimant: Claimant) -> tuple[list[str], list[str], list[str]]:
    """Return the lanes by actor and group, the groups, and the keys."""
    fetch = claimant.connection.fetch
    lanes = await fetch("select actor || ' ' || group_key from tidegate.lanes order by 1")
    groups = await fetch("select group_key from tidegate.groups order by 1")
    keys = await fetch("select key from tidegate.keys order by 1")
    return [row[0] for row in lanes], [row[0] for row in groups], [row[0] for row in keys]


async def test_rows_of_tenants_without_jobs_go_at_the_second_sweep(claimants: list[Claimant]) -> None:
    one, _, other = claimants
    await other.limit("kept", 5)
    for key in ("gone", "kept", "runs", "waits"):
        await other.put("a", key)
    running = {row["limit_key"]: row for row in await one.claim("a", 3)}
    assert set(running) == {"gone", "kept", "runs"}
    await one.ack([running["gone"], running["kept"]])
    await sweep(other, times=1)
    assert await rows(other) == (
        ["x gone", "x kept", "x runs", "x waits"],
        ["gone", "kept", "runs", "waits"],
        ["gone", "kept", "runs"],
    )
    await sweep(other)
    assert await rows(other) == (["x runs", "x waits"], ["runs", "waits"], ["kept", "runs"])
    assert await other.drift() == []
    await other.put("a", "gone")
    started = await one.claim("a", 2, done=[running["runs"]])
    assert [row["limit_key"] for row in started] == ["waits", "gone"]
    assert await other.drift() == []


async def test_a_lane_left_alone_in_its_group_keeps_its_rank(claimants: list[Claimant]) -> None:
    one, two, other = claimants
    await other.order("fair")
    await other.put("a", "k", actor="y")
    await two.ack(await two.claim("a", actors=("y",)))
    await other.put("a", "k", 3)
    await other.put("a", "l", 3)
    assert len(await one.claim("a", 1)) == 1
    await sweep(other)
    assert (await rows(other))[0] == ["x k", "x l"]
    assert await other.drift() == []
    assert [row["limit_key"] for _ in range(3) for row in await one.claim("a")] == ["l", "k", "l"]
    assert await other.drift() == []


async def test_what_an_open_transaction_enqueued_outlives_its_lane(claimants: list[Claimant]) -> None:
    one, two, other = claimants
    await other.put("a", "k")
    await one.ack(await one.claim("a"))
    held = two.connection.transaction()
    await held.start()
    await two.connection.fetch(
        "select * from tidegate.enqueue_many($1)", json.dumps([{"queue": "a", "actor": "x", "limit_key": "k"}] * 2)
    )
    # an open transaction holds back what counts as unchanged, so the sweeps are those of the functions
    await other.connection.execute("select tidegate.sweep_queue('a', 100)")
    await other.connection.execute("update tidegate.queues set swept = pg_current_xact_id()")
    await other.connection.execute("select tidegate.sweep_lanes('a', 100)")
    assert (await rows(other))[0] == []
    await held.commit()
    assert len(await one.claim("a", 3)) == 2
    assert await other.drift() == []
