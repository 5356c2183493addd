-- Locks: keys SKIP LOCKED, never waits; the caller holds the queue. Cost: see admit_keys, settle_heads and open_better.
-- What the fast path may not assume of the lanes picked. Returns what is held, with `again` where the lanes picked are not the first ones any more: some
-- closed, moved or opened, or have a key that somebody else holds, so that another's head may stand before a second job of theirs.
create or replace function tidegate.settle_pick(queue text, ranked boolean, picked tid[], wanted text[], held tidegate.hold, actors text[], rooms int[], slots int)
returns tidegate.hold language plpgsql
set search_path = tidegate, pg_temp as $$
declare
  p_queue text := settle_pick.queue;
  were_busy text[] := held.busy;
begin
  held := admit_keys(p_queue, picked, wanted, held, slots);
  if held.busy <> were_busy then
    held.again := true;
  end if;
  if not held.again then
    if settle_heads(p_queue, picked) then
      perform look_after_gates(p_queue, held, slots);
      held.again := true;
    else
      held.again := open_better(p_queue, ranked, picked, held, actors, rooms, slots);
    end if;
  end if;
  return held;
end $$;
