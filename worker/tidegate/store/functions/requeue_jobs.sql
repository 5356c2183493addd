-- Locks: the jobs, by id. Cost: one update a job, one mail row a lane. Puts jobs that still run under their token back: unspent
-- (`spend` false: the attempt is given back) or after a failed attempt. `delays` null is at once. Returns what left running, by lane.
create or replace function tidegate.requeue_jobs(worker uuid, jobs bigint[], claims bigint[], delays interval[], spend boolean, errors text[],
  tracebacks text[], lose int, out gone tidegate.leavers, out requeued bigint[]) language plpgsql
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  instant timestamptz := clock_timestamp();
  part record;
begin
  with u as (
    update tidegate.jobs j
       set state = case when v.delay > '0' then 'scheduled' else 'ready' end,
           run_at = case when v.delay > '0' then instant + v.delay else j.run_at end,
           worker = null, claim = null, started_at = null, lost = j.lost + lose,
           attempt = case when spend then j.attempt else j.attempt - 1 end,
           error = coalesce(v.message, j.error), traceback = coalesce(v.trace, j.traceback)
      from unnest(requeue_jobs.jobs, requeue_jobs.claims, requeue_jobs.delays, requeue_jobs.errors, requeue_jobs.tracebacks) v(job, token, delay, message, trace)
     where j.id = v.job and j.worker is not distinct from requeue_jobs.worker and j.claim = v.token and j.state = 'running'
    returning j.*),
  mail as (
    insert into lane_mail(queue, group_key, limit_key, actor, ready, neg, run_at, id, bytes)
    select distinct on (queue, group_key, limit_key, actor) queue, group_key, limit_key, actor,
           count(*) over (partition by queue, group_key, limit_key, actor), -priority::int, run_at, id, bytes
      from u where state = 'ready' order by queue, group_key, limit_key, actor, -priority::int, run_at, id),
  later as (
    insert into lane_mail(queue, ready, run_at, id)
    select distinct on (queue) queue, count(*) over (partition by queue), run_at, id from u where state = 'scheduled' order by queue, run_at, id)
  select (select array_agg(id) from u) ids,
         row(array_agg(lane), array_agg(queue), array_agg(group_key), array_agg(limit_key), array_agg(actor), array_agg(c))::leavers lanes
    into part from (select lane_of(queue, group_key, limit_key, actor) lane, queue, group_key, limit_key, actor, count(*)::int c from u group by 1, 2, 3, 4, 5) z;
  requeued := part.ids;
  gone := part.lanes;
  if requeued is not null then
    perform notify_sleepers(gone.queues);
  end if;
end $$;
