-- Locks: jobs SKIP LOCKED; the caller holds the queue. Cost: `most` job updates, one update a lane. Scheduled jobs that are due become ready, oldest first,
-- told to their lanes at once. The queue's low water rises to the next one, to infinity where there is none; mail that comes with an earlier one lowers it again.
create or replace function tidegate.promote_jobs(queue text, most int) returns int language plpgsql
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_queue text := promote_jobs.queue;
  -- read once: as a call in the condition it would bound no index scan
  at timestamptz := clock_timestamp();
  low record;
  n int; hashes bigint[]; p_groups text[]; p_keys text[]; p_actors text[]; p_ready int[]; heads place[];
begin
  select due_from, due_id, exists (select from sleepers s where s.queue = p_queue) heard into low from queues where name = p_queue;
  with u as (
    update jobs j set state = 'ready'
     where j.ctid = any(array(
       select r.ctid from jobs r where r.queue = p_queue and r.state = 'scheduled' and (r.run_at, r.id) >= (low.due_from, low.due_id) and r.run_at <= at
        order by r.run_at, r.id limit most for update skip locked))
    returning j.group_key, j.limit_key, j.actor, -j.priority::int neg, j.run_at, j.id, j.bytes),
  s as (
    select group_key, limit_key, actor, count(*)::int ready, (array_agg(row(neg, run_at, id, bytes)::place order by neg, run_at, id))[1] head from u group by 1, 2, 3)
  select coalesce(sum(ready), 0), array_agg(lane_of(p_queue, group_key, limit_key, actor)), array_agg(group_key), array_agg(limit_key), array_agg(actor),
         array_agg(ready), array_agg(head)
    into n, hashes, p_groups, p_keys, p_actors, p_ready, heads from s;
  if n > 0 then
    perform tell_lanes(p_queue, hashes, p_groups, p_keys, p_actors, p_ready, array_fill(0, array[cardinality(hashes)]), heads);
    if low.heard then
      perform notify_sleepers(array[p_queue]);
    end if;
  end if;
  update queues q set scheduled = q.scheduled - n, (due_at, due_from, due_id) = (
      select coalesce(j.run_at, 'infinity'), coalesce(j.run_at, 'infinity'), coalesce(j.id, 0) from (select) one left join (
        select run_at, id from jobs where queue = p_queue and state = 'scheduled' and (run_at, id) >= (low.due_from, low.due_id) order by run_at, id limit 1) j on true)
   where q.name = p_queue;
  return n;
end $$;
