select row_to_json(j)::text
from (
  select id, queue, actor, state, limit_key, group_key, priority, run_at, attempt, max_attempts,
         trunc(extract(epoch from timeout) * 1000000) as timeout,
         expires_at, job_key, worker, claim, lost, cancel_at, created_at, started_at, finished_at, keep_until, error, bytes,
         traceback, headers, payload
  from tidegate.job_status
  where id = $1::bigint) j
