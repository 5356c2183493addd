-- Locks: none; the caller holds the queue. Cost: the lanes of these groups. The weight of a group is that of the policy of the key of its name.
create or replace function tidegate.weigh_lanes(queue text, group_keys text[]) returns void language plpgsql
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_queue text := weigh_lanes.queue;
begin
  update lanes l set weight = coalesce(k.weight, 1)
    from groups g left join keys k on k.key = g.group_key, queues q
   where q.name = p_queue and q.kept_order <> 'priority' and g.queue = p_queue and g.group_key = any(weigh_lanes.group_keys)
     and l.lane = any(g.lanes) and l.queue = p_queue and l.group_key = g.group_key and l.weight <> coalesce(k.weight, 1);
  perform regroup(p_queue, weigh_lanes.group_keys);
end $$;
