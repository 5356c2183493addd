-- Locks: keys SKIP LOCKED, never waits. Cost: one insert for each key never used before; one update for each lane found full, which is then out of the
-- index; one gate a key. What the fast path may not assume: keys that are new, busy or may have less room than `slots`. Those are settled, so that their
-- room is exact; the lanes of those still full are closed and the queue registers at the key, all under the key's lock, so that whoever frees capacity
-- later finds the registration.
create or replace function tidegate.admit_keys(queue text, picked tid[], wanted text[], held tidegate.hold, slots int) returns tidegate.hold language plpgsql
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_queue text := admit_keys.queue;
  missing text[];
  tight text[];
  full_ text[];
begin
  missing := array(select distinct k from unnest(wanted) k where k <> all(held.keys));
  if missing <> '{}' then
    perform ensure_keys(missing);
    held := hold_keys(missing, held);
    held.busy := held.busy || array(select k from unnest(missing) k where k <> all(held.keys));
  end if;
  -- before the lanes change: an update moves them
  held.watched := array(select distinct l.limit_key from unnest(picked) t join lanes l on l.ctid = t where l.gated and l.limit_key = any(held.keys));
  tight := array(select k from unnest(held.keys, held.rooms) u(k, room) where room < slots);
  held.again := false;
  if tight <> '{}' then
    full_ := settle_keys(tight, held.at);
    -- no start is dated before a finish that made room for it: its mail may have come after the last lock
    held.at := greatest(held.at, clock_timestamp());
    -- what was settled here may be what others wait for
    perform reopen(array(select key from keys where key = any(tight) and key <> all(full_) and waiting <> '{}'));
    select array_agg(key), array_agg(least(coalesce(max_running, 1000000000) - running, coalesce(max_starts, 1000000000) - starts)::int)
      into held.keys, held.rooms from keys where key = any(held.keys);
    if full_ <> '{}' then
      update lanes l set open = false, gated = true from unnest(picked) t where l.ctid = t and l.limit_key = any(full_);
      perform close_gates(p_queue, full_, held.at);
      held.again := true;
    end if;
  end if;
  return held;
end $$;
