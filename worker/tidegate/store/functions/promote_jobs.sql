-- Locks: jobs SKIP LOCKED. Cost: `most` job updates, one mail row a lane. Scheduled jobs that are due become ready, oldest first.
create or replace function tidegate.promote_jobs(queue text, most int) returns int language plpgsql
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_queue text := promote_jobs.queue;
  -- read once: as a call in the condition it would bound no index scan
  at timestamptz := clock_timestamp();
  low record;
  n int;
begin
  select due_at, due_id into low from queues where name = p_queue;
  with p as materialized (
    select id from jobs where queue = p_queue and state = 'scheduled' and (run_at, id) >= (low.due_at, low.due_id) and run_at <= at
     order by run_at, id limit most for update skip locked),
  u as (update jobs j set state = 'ready' from p where j.id = p.id returning j.*),
  m as (
    insert into lane_mail(queue, group_key, limit_key, actor, ready, neg, run_at, id, bytes)
    select distinct on (group_key, limit_key, actor) queue, group_key, limit_key, actor, count(*) over (partition by group_key, limit_key, actor), -priority::int, run_at, id, bytes
      from u order by group_key, limit_key, actor, -priority::int, run_at, id)
  select count(*) into n from u;
  if n > 0 then
    insert into lane_mail(queue, ready) values (p_queue, -n);
    perform notify_sleepers(array[p_queue]);
  end if;
  return n;
end $$;
