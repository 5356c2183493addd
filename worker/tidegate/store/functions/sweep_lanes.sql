-- Locks: the queue, waits for a claim. Cost: one look at each lane of the queue, at most `most` deleted. Lanes without any job that did not change since
-- the sweep before: their counts are sums, so that what comes later makes them anew. Returns the lanes dropped.
create or replace function tidegate.sweep_lanes(queue text, most int) returns int language plpgsql security definer
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_queue text := sweep_lanes.queue;
  unchanged xid8;
  left_ text[];
  n int;
begin
  select swept into unchanged from queues where name = p_queue for no key update;
  with gone as (
    delete from lanes where ctid = any(array(
      select ctid from lanes where queue = p_queue and id is null and ready = 0 and running = 0 and open and age(xmin) > age(unchanged::xid) limit most))
    returning group_key)
  select count(*), array_agg(distinct group_key) into n, left_ from gone;
  if n > 0 then
    -- a fresh look, which does not see them any more
    update groups g set lanes = array(select h from unnest(g.lanes) h where exists (
        select from lanes l where l.lane = h and l.queue = p_queue and l.group_key = g.group_key))
     where g.queue = p_queue and g.group_key = any(left_);
    update lanes l set many = false from groups g
     where g.queue = p_queue and g.group_key = any(left_) and cardinality(g.lanes) = 1 and l.lane = g.lanes[1] and l.queue = p_queue
       and l.group_key = g.group_key and l.many;
    delete from groups g where g.queue = p_queue and g.group_key = any(left_) and g.lanes = '{}';
  end if;
  if n < most then
    update queues set swept = pg_snapshot_xmin(pg_current_snapshot()), swept_at = clock_timestamp() where name = p_queue;
  end if;
  return n;
end $$;
