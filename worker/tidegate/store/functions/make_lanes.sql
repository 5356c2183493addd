-- Locks: none; the caller holds the queue, so nobody else makes lanes of it. For lanes of a queue that nobody else may see yet: advisory (7439, 0), shared, waits
-- for the commit of a weight. Cost: one insert a new lane.
-- `made`: the hashes of the new lanes; `regrouped`: the groups that have several lanes now.
create or replace function tidegate.make_lanes(queue text, hashes bigint[], group_keys text[], limit_keys text[], actors text[], ready int[], running int[],
  heads tidegate.place[], out made bigint[], out regrouped text[]) language plpgsql
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_queue text := make_lanes.queue;
  kept text;
  unseen boolean;
  shared bigint[];
begin
  select kept_order, age(xmin) <= 0 into kept, unseen from queues where name = p_queue;
  if unseen then
    -- a weight that is being committed may have been told to every queue but this one: the lanes are made with it, or before it looks for queues
    perform pg_advisory_xact_lock_shared(7439, 0);
  end if;
  with up as (
    insert into lanes as l (lane, queue, group_key, limit_key, actor, ready, running, weight, rank, dual, gated, neg, run_at, id, bytes)
    select x.lane, p_queue, x.g, x.k, x.a, x.ready, x.running, z.weight, x.running / z.weight, kept = 'both', y.gated, x.head_neg, x.head_run, x.head_id, x.head_bytes
      from unnest(hashes, group_keys, limit_keys, make_lanes.actors, make_lanes.ready, make_lanes.running, heads)
             x(lane, g, k, a, ready, running, head_neg, head_run, head_id, head_bytes),
           lateral (select case when kept = 'priority' then 'infinity' else coalesce((select k.weight from keys k where k.key = x.g), 1)::float8 end weight) z,
           -- open even where its key has closed lanes: it may belong before all of them; a claim that finds the key full closes it
           lateral (select exists (select from gates g where g.queue = p_queue and g.limit_key = x.k and g.lane is null) gated) y
     where not exists (select from lanes o where o.lane = x.lane and o.queue = p_queue and o.group_key = x.g and o.limit_key = x.k and o.actor = x.a)
    returning l.lane, l.group_key, l.actor),
  g as (
    insert into groups as g select p_queue, group_key, array_agg(lane) from up group by 2
    on conflict (queue, group_key) do update set lanes = g.lanes || excluded.lanes returning g.group_key, g.lanes),
  w as (insert into low_waters(queue, actor) select distinct p_queue, actor from up on conflict do nothing)
  select (select array_agg(lane) from up), (select array_agg(h) from g, unnest(g.lanes) h where cardinality(g.lanes) > 1),
         (select array_agg(group_key) from g where cardinality(g.lanes) > 1 and kept <> 'priority') into made, shared, regrouped;
  if shared is not null then
    update lanes set many = true where lane = any(shared) and queue = p_queue and not many;
  end if;
end $$;
