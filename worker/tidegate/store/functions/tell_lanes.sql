-- Locks: none; the caller holds the queue. Cost: one update a lane; the rest only for lanes that are new or change the order. What became ready or left
-- running, summed by lane, is counted on the lanes; `heads` are the first of the jobs that became ready, null where none did.
create or replace function tidegate.tell_lanes(queue text, hashes bigint[], group_keys text[], limit_keys text[], actors text[], ready int[], running int[],
  heads tidegate.place[]) returns void language plpgsql
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_queue text := tell_lanes.queue;
  touched bigint[]; ahead bigint[]; regrouped text[];
begin
  with u as (
    update lanes l set ready = l.ready + v.ready, running = l.running + v.running,
           rank = case when l.many then l.rank else (l.running + v.running) / l.weight end,
           neg = case when v.first then v.neg else l.neg end, run_at = case when v.first then v.run_at else l.run_at end,
           id = case when v.first then v.id else l.id end, bytes = case when v.first then v.bytes else l.bytes end,
           -- it may belong before the lanes of its key that were opened now; a claim that finds the key full closes it again
           open = l.open or v.first or l.weight < 'infinity' and v.running < 0 and l.id is not null and not is_shut(p_queue, l.limit_key, l.lane)
      from (select o.ctid tid, x.ready, x.running, x.neg, x.run_at, x.id, x.bytes,
                   x.id is not null and (o.id is null or (x.neg, x.run_at, x.id) < (o.neg, o.run_at, o.id)) first
              from unnest(hashes, group_keys, limit_keys, tell_lanes.actors, tell_lanes.ready, tell_lanes.running, heads)
                     x(lane, g, k, a, ready, running, neg, run_at, id, bytes)
              join lanes o on o.lane = x.lane and o.queue = p_queue and o.group_key = x.g and o.limit_key = x.k and o.actor = x.a) v
     where l.ctid = v.tid returning l.lane, l.many, l.group_key, v.first or v.running < 0 up)
  select array_agg(lane), array_agg(lane) filter (where up), array_agg(distinct group_key) filter (where many and up)
    into touched, ahead, regrouped from u;
  if cardinality(touched) is distinct from cardinality(hashes) then
    select ahead || m.made, regrouped || m.together into ahead, regrouped
      from make_lanes(p_queue, hashes, group_keys, limit_keys, tell_lanes.actors, tell_lanes.ready, tell_lanes.running, heads) m(made, together);
  end if;
  if regrouped is not null then
    perform regroup(p_queue, regrouped);
    ahead := ahead || array(select unnest(lanes) from groups where queue = p_queue and group_key = any(regrouped));
  end if;
  if ahead is not null then
    perform lower_low_waters(p_queue, ahead);
  end if;
end $$;
