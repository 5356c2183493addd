-- Locks: none. Cost: at most `most` rows of the index on scheduled jobs. The keys of scheduled jobs that fell due since `low` and that nobody promoted yet, oldest first.
-- For queue_demand, whose readers may read no job. The plan is pinned: where few are expected a sort of all that are due looks cheaper, and two million may be due.
create or replace function tidegate.due_jobs(queue text, low timestamptz, at timestamptz, most int) returns table(limit_key text, run_at timestamptz)
language sql stable security definer rows 10 set search_path = tidegate, pg_temp set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off as $$
  select j.limit_key, j.run_at from jobs j
   where j.queue = $1 and j.state = 'scheduled' and j.run_at >= $2 and j.run_at <= $3 and (j.expires_at is null or j.expires_at > $3)
   order by j.run_at, j.id limit $4
$$;
