-- Locks: jobs SKIP LOCKED; the caller holds the queue. Cost: one delete and one history row for each of these jobs that is too late to start.
create or replace function tidegate.expire_jobs(queue text, ids bigint[], at timestamptz) returns int language plpgsql
set search_path = tidegate, pg_temp set tidegate.inside = on as $$
#variable_conflict use_column
declare
  p_queue text := expire_jobs.queue;
  n int;
begin
  with x as materialized (
    select id from jobs where id = any(expire_jobs.ids) and queue = p_queue and state <> 'running' and expires_at <= at order by id for update skip locked),
  d as (delete from jobs j using x where j.id = x.id returning j.*),
  h as (select tidegate.remember(d, 'expired', at) from d),
  m as (
    insert into lane_mail(queue, group_key, limit_key, actor, ready)
    select p_queue, group_key, limit_key, actor, -count(*) from d where state = 'ready' group by 1, 2, 3, 4),
  s as (insert into lane_mail(queue, ready) select p_queue, -count(*) from d where state = 'scheduled' having count(*) > 0)
  select count(*) into n from h;
  return n;
end $$;
