-- Locks: none; the caller holds the queue. Cost: for each key and actor the lanes that the key has room for now, `most` at most, one at least.
-- Opens the first closed lanes of these keys, in each order that the queue keeps; the room is read without the key's lock and only bounds the work: each lane
-- that opens is gated, so that the claim which meets it, under the key's lock, opens what else belongs before it. A lane that waits for a locked
-- job stays closed. A gate without closed lanes goes. Returns whether lanes opened.
create or replace function tidegate.open_lanes(queue text, limit_keys text[], most int) returns boolean language plpgsql
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_queue text := open_lanes.queue;
  opened bigint[];
begin
  with room as materialized (
    select k.key, a.actor, greatest(1, least(most, coalesce(k.max_running, 1000000000) - k.running, coalesce(k.max_starts, 1000000000) - k.starts)) n
      from keys k cross join (select actor from low_waters w where w.queue = p_queue) a where k.key = any(limit_keys)),
  first as materialized (
    select l.tid from room r cross join lateral closed_lanes(p_queue, r.key, r.actor, true, r.n) l
    union
    select l.tid from room r cross join lateral closed_lanes(p_queue, r.key, r.actor, false, r.n) l),
  u as (update lanes l set open = true, gated = true from first f where l.ctid = f.tid returning l.lane)
  select array_agg(lane) into opened from u;
  update gates g set recheck_at = null, shut = false where g.queue = p_queue and g.limit_key = any(limit_keys) and g.lane is null;
  delete from gates g where g.queue = p_queue and g.limit_key = any(limit_keys) and g.lane is null
     and not exists (select from lanes l where l.queue = p_queue and l.limit_key = g.limit_key and not l.open);
  if opened is null then
    return false;
  end if;
  perform lower_low_waters(p_queue, opened);
  return true;
end $$;
