select row_to_json(j)::text
from (
  select id, queue, actor, state, limit_key, group_key, priority, run_at, attempt, max_attempts,
         trunc(extract(epoch from timeout) * 1000000) as timeout,
         expires_at, job_key, worker, claim, lost, cancel_at, created_at, started_at, finished_at, keep_until, error, bytes
  from tidegate.job_status
  where ($1::text is null or state = any(string_to_array($1::text, ',')))
    and ($2::text is null or queue = $2::text)
    and ($3::text is null or actor = $3::text)
    and ($4::text is null or limit_key = $4::text)
  order by id desc
  limit $5::int) j
