-- Locks: none; the caller holds the queue. Cost: one index descent. Whether a closed lane must stay so though it comes forward: an event will open the
-- first lanes of its key, or it waits for a locked job.
create or replace function tidegate.is_shut(queue text, limit_key text, lane bigint) returns boolean language sql stable
set search_path = tidegate, pg_temp as $$
  select exists (select from gates g where g.queue = $1 and g.limit_key = $2 and (g.lane = $3 or g.lane is null and g.shut))
$$;
