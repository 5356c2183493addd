-- Locks: the jobs SKIP LOCKED, so that it may be called under a queue; who may wait locks them before, by id. Cost: one delete and one history row a job.
-- Takes jobs that still run under their token out of the hot table; returns what left, by lane, and appends their ids to `finished`.
create or replace function tidegate.finish_jobs(worker uuid, jobs bigint[], claims bigint[], outcome text, errors text[], tracebacks text[],
  out gone tidegate.leavers, out finished bigint[]) language plpgsql
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  instant timestamptz := clock_timestamp();
  part record;
begin
  with l as materialized (
    select r.id, u.message, u.trace
      from unnest(finish_jobs.jobs, finish_jobs.claims, finish_jobs.errors, finish_jobs.tracebacks) u(job, token, message, trace)
      join tidegate.jobs r on r.id = u.job
     where r.worker is not distinct from finish_jobs.worker and r.claim = u.token and r.state = 'running' for update of r skip locked),
  d as (delete from tidegate.jobs j using l where j.id = l.id returning j.*, l.message, l.trace),
  h as (
    insert into history(id, claim, run_at, expires_at, started_at, created_at, finished_at, keep_until, timeout, worker, bytes, priority, attempt,
                        max_attempts, lost, state, queue, actor, group_key, limit_key, job_key, error, traceback, headers, payload)
    select d.id, d.claim, d.run_at, d.expires_at, d.started_at, d.created_at, instant, instant + keep, d.timeout, d.worker, d.bytes, d.priority,
           d.attempt, d.max_attempts, d.lost, outcome, d.queue, d.actor, d.group_key, d.limit_key, d.job_key, coalesce(d.message, d.error),
           coalesce(d.trace, d.traceback), d.headers, d.payload
      from d left join queues q on q.name = d.queue,
           lateral (select case when outcome = 'succeeded' then coalesce(q.keep_succeeded, '1 hour') else coalesce(q.keep_dead, '14 days') end keep) r
     where keep > '0')
  select (select array_agg(id) from d) ids,
         row(array_agg(lane), array_agg(queue), array_agg(group_key), array_agg(limit_key), array_agg(actor), array_agg(c))::leavers lanes
    into part from (select lane_of(queue, group_key, limit_key, actor) lane, queue, group_key, limit_key, actor, count(*)::int c from d group by 1, 2, 3, 4, 5) z;
  finished := part.ids;
  gone := part.lanes;
end $$;
