-- Locks: none. The payload of a job that was too large to come along with its claim; null when the token does not hold the job any more.
create or replace function tidegate.payload_of(job bigint, worker uuid, claim bigint) returns jsonb language sql stable security definer
set search_path = tidegate, pg_temp as $$
  select j.payload from jobs j where j.id = $1 and j.worker = $2 and j.claim = $3 and j.state = 'running'
$$;
