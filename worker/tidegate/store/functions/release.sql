-- Locks: the jobs by id, then keys SKIP LOCKED; never waits for a key. Cost: one update a job and key, one mail row a lane.
-- Back to the queue, attempt not spent, at once or after `delay` (reject, drain, shutdown); a job whose cancel was asked for becomes cancelled.
create or replace function tidegate.release(worker uuid, jobs bigint[], claims bigint[], delay interval default null)
returns table(stale bigint[], wake text[])
language plpgsql security definer set search_path = tidegate, pg_temp set tidegate.inside = on as $$
begin
  perform tidegate.require_read_committed();
  select g.known, g.wake into stale, wake from tidegate.give_back(release.worker, release.jobs, release.claims, release.delay, 0) g;
  stale := tidegate.without(release.jobs, stale);
  return next;
end $$;
