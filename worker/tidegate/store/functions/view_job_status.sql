-- Every job that is known: waiting, running and finished.
create or replace view tidegate.job_status as
select id, queue, actor, state, limit_key, group_key, priority, run_at, attempt, max_attempts, lost, timeout, expires_at, job_key, worker, claim, started_at, cancel_at,
       created_at, null::timestamptz finished_at, null::timestamptz keep_until, error, traceback, headers, payload, bytes from tidegate.jobs
union all
select id, queue, actor, state, limit_key, group_key, priority, run_at, attempt, max_attempts, lost, timeout, expires_at, job_key, worker, claim, started_at, null,
       created_at, finished_at, keep_until, error, traceback, headers, payload, bytes from tidegate.history;
