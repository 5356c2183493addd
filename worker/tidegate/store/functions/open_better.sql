-- Locks: none; the caller holds queue and keys. Cost: for each key that had lanes closed, at most min(its room, `slots`) closed lanes an actor.
-- The room of the keys is exact now: opens the closed lanes that the claim may start from. Those are among the first of their key, as many as it has room
-- for, and stand before the last lane picked where the pick, or the room of their actor, is full. Returns whether lanes opened: pick again then.
create or replace function tidegate.open_better(queue text, ranked boolean, picked tid[], held tidegate.hold, actors text[], rooms int[], slots int) returns boolean
language plpgsql set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_queue text := open_better.queue;
  opened bigint[];
begin
  if held.watched = '{}' then
    return false;
  end if;
  with p as materialized (
    select l.limit_key, l.actor, row(l.neg, case when ranked then l.rank else 0 end, l.run_at, l.id) place from unnest(picked) t join lanes l on l.ctid = t),
  a as materialized (
    select actor, case when (select count(*) from p where p.actor = u.actor) >= room then (select place from p where p.actor = u.actor order by place desc limit 1) end last
      from (select actor, coalesce(room, slots) room from unnest(open_better.actors, open_better.rooms) r(actor, room)) u where room > 0),
  z as materialized (
    select z.tid, row(z.neg, z.rank, z.run_at, z.id) place, r.key, a.last, least(slots, r.room) most,
           row_number() over (partition by r.key order by z.neg, z.rank, z.run_at, z.id) ahead
      from unnest(held.keys, held.rooms) r(key, room) cross join a
     cross join lateral closed_lanes(p_queue, r.key, a.actor, open_better.ranked, greatest(0, least(slots, r.room))) z
     where r.key = any(held.watched)),
  u as (
    update lanes l set open = true, gated = true from z
     where l.ctid = z.tid and (z.last is null or z.place < z.last) and (cardinality(picked) < slots or z.place < (select place from p order by place desc limit 1))
       and z.ahead + (select count(*) from p where p.limit_key = z.key and p.place < z.place) <= z.most
    returning l.lane)
  select array_agg(lane) into opened from u;
  if opened is null then
    return false;
  end if;
  perform lower_low_waters(p_queue, opened);
  return true;
end $$;
