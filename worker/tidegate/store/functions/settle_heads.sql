-- Locks: none; the caller holds the queue. Cost: a lane one index descent. Lanes whose head is not ready any more (cancelled, expired, deleted) get their
-- true head. Returns whether a lane moved: the lanes picked are then not the first ones any more.
create or replace function tidegate.settle_heads(queue text, first tid[]) returns boolean language plpgsql
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_queue text := settle_heads.queue;
begin
  update lanes l set neg = z.neg, run_at = z.run_at, id = z.id, bytes = z.bytes
    from (select l.ctid tid, h.* from unnest(settle_heads.first) t join lanes l on l.ctid = t and l.open
            left join lateral (select -j.priority::int neg, j.run_at, j.id, j.bytes from jobs j
                 where lane_of(j.queue, j.group_key, j.limit_key, j.actor) = l.lane and j.state = 'ready' and j.queue = p_queue and j.group_key = l.group_key and j.limit_key = l.limit_key and j.actor = l.actor
                   and (-j.priority::int, j.run_at, j.id) >= (l.neg, l.run_at, l.id) order by -j.priority::int, j.run_at, j.id limit 1) h on true
           where (h.id, h.neg, h.run_at) is distinct from (l.id, l.neg, l.run_at)) z
   where l.ctid = z.tid;
  return found;
end $$;
