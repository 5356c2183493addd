-- Locks: none; the caller holds the queue. Cost: one index descent for each of at most `slots` lanes of each actor, and one for the job after the head of
-- each lane of the merge. The priority order of a queue that is claimed in both orders.
create or replace function tidegate.next_lanes_plain(queue text, actors text[], rooms int[], slots int, budget bigint, busy text[])
returns tidegate.pick language plpgsql
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_queue alias for $1;
  picked pick;
begin
  select array_agg(l.limit_key) filter (where l.limit_key <> ''), array_agg(l.id),
         array_agg(row(l.tid, l.neg, l.rank, l.run_at, j.neg, j.run_at, j.id, j.bytes)::step),
         count(*) = slots and not bool_or(l.many or l.gated) and coalesce(sum(l.bytes) <= budget, true)
         and (count(j.id) = 0 or min(j.neg) >= max(l.neg) and (min(j.run_at) > max(l.run_at) or min(j.run_at) >= max(l.run_at) and min(j.id) > max(l.id)))
    into picked.keys, picked.ids, picked.steps, picked.one_each
    from (select l.*
            from unnest(next_lanes_plain.actors, rooms) a(actor, room)
           cross join lateral (
             select l.ctid tid, l.lane, l.group_key, l.limit_key, l.actor, l.neg, l.rank, l.run_at, l.id, l.bytes, l.many, l.gated from lanes l
              where l.queue = p_queue and l.actor = a.actor and l.open and l.id is not null and l.dual and l.limit_key <> all(busy)
              order by l.neg, l.run_at, l.id limit least(slots, a.room)) l
           order by l.neg, l.run_at, l.id limit slots) l
    left join lateral (
      select -j.priority::int neg, j.run_at, j.id, j.bytes from jobs j
       where lane_of(j.queue, j.group_key, j.limit_key, j.actor) = l.lane and j.state = 'ready'
         and j.queue = p_queue and j.group_key = l.group_key and j.limit_key = l.limit_key and j.actor = l.actor
         and (-j.priority::int, j.run_at, j.id) > (l.neg, l.run_at, l.id) order by -j.priority::int, j.run_at, j.id limit 1) j on true;
  return picked;
end $$;
