-- Locks: none. Cost: one history row, unless the queue keeps none. Writes a job that left without having run now to the history.
create or replace function tidegate.remember(job tidegate.jobs, outcome text, at timestamptz) returns bigint language plpgsql
set search_path = tidegate, pg_temp as $$
begin
  insert into history(id, claim, run_at, expires_at, started_at, created_at, finished_at, keep_until, timeout, worker, bytes, priority, attempt,
                      max_attempts, lost, state, queue, actor, group_key, limit_key, job_key, error, traceback, headers, payload)
  select job.id, job.claim, job.run_at, job.expires_at, job.started_at, job.created_at, at, at + keep, job.timeout, job.worker, job.bytes, job.priority,
         job.attempt, job.max_attempts, job.lost, outcome, job.queue, job.actor, job.group_key, job.limit_key, job.job_key, job.error, job.traceback,
         job.headers, job.payload
    from (select coalesce((select keep_dead from queues where name = job.queue), '14 days') keep) r where keep > '0';
  return job.id;
end $$;
