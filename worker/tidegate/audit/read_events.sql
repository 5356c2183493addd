select seq, at, xid::text::bigint as xid, kind, job, queue, key, group_key, name, item, worker, claim, attempt, attempt_left, max_attempts, run_at, expires_at,
       began, started_at, running, max_running, max_starts, rate_window, worker_ready, held, silent, lease
  from tidegate_audit.events order by seq
