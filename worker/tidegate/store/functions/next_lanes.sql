-- Locks: none; the caller holds the queue. Cost: one index descent for each of at most `slots` lanes of each actor, and one for the job after the head of
-- each lane of the merge. The first lanes by rank, which in fair order moves with what runs; where only the priority order is kept, all ranks are 0.
create or replace function tidegate.next_lanes(queue text, actors text[], rooms int[], slots int, budget bigint, busy text[])
returns tidegate.pick language plpgsql
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_queue alias for $1;
  p_actors alias for $2;
  picked pick;
  last step;
  several boolean;
  total bigint;
  least_rank float8;
  least_neg int;
  least_run timestamptz;
  least_id bigint;
begin
  select array_agg(l.limit_key) filter (where l.limit_key <> ''), array_agg(l.id),
         array_agg(row(l.tid, l.neg, l.rank, l.run_at, j.neg, j.run_at, j.id, j.bytes)::step),
         bool_or(l.many and l.weight < 'infinity' or l.gated), sum(l.bytes), min((l.running + 1) / l.weight), min(j.neg), min(j.run_at), min(j.id)
    into picked.keys, picked.ids, picked.steps, several, total, least_rank, least_neg, least_run, least_id
    from (select l.*
            from low_waters w
           cross join lateral (
             select l.ctid tid, l.lane, l.group_key, l.limit_key, l.actor, l.neg, l.rank, l.run_at, l.id, l.bytes, l.running, l.weight, l.many, l.gated from lanes l
              where l.queue = p_queue and l.actor = w.actor and l.open and l.id is not null and l.limit_key <> all(busy)
                and (l.neg, l.rank, l.run_at, l.id) >= (w.neg, w.rank, w.run_at, w.id)
              order by l.neg, l.rank, l.run_at, l.id limit least(slots, rooms[array_position(p_actors, w.actor)])) l
           where w.queue = p_queue and w.actor = any(p_actors)
           order by l.neg, l.rank, l.run_at, l.id limit slots) l
    left join lateral (
      select -j.priority::int neg, j.run_at, j.id, j.bytes from jobs j
       where lane_of(j.queue, j.group_key, j.limit_key, j.actor) = l.lane and j.state = 'ready'
         and j.queue = p_queue and j.group_key = l.group_key and j.limit_key = l.limit_key and j.actor = l.actor
         and (-j.priority::int, j.run_at, j.id) > (l.neg, l.run_at, l.id) order by -j.priority::int, j.run_at, j.id limit 1) j on true;
  -- one job of each lane is exactly the answer where no job after a head can stand before the last head
  last := picked.steps[slots];
  picked.one_each := cardinality(picked.ids) = slots and not several and coalesce(total <= budget, true)
    and coalesce(least_neg >= last.head_neg and (least_rank > last.head_rank
                 or least_rank >= last.head_rank and (least_run > last.head_run or least_run >= last.head_run and least_id > picked.ids[slots])), true);
  return picked;
end $$;
