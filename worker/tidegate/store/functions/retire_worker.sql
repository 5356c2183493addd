-- Locks: the caller holds the worker row FOR UPDATE; jobs by id, keys SKIP LOCKED. Cost: the jobs that it held.
-- The worker is not alive any more; what it still runs goes back unspent, `lose` says whether it counts as a lost worker.
create or replace function tidegate.retire_worker(worker uuid, lose int, out jobs int, out dead int, out wake text[]) language plpgsql
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_worker uuid := retire_worker.worker;
  held bigint[];
  tokens bigint[];
  given record;
begin
  update workers w set alive = false where w.id = p_worker;
  delete from sleepers s where s.worker = p_worker;
  select coalesce(array_agg(j.id), '{}'), coalesce(array_agg(j.claim), '{}') into held, tokens
    from claims c cross join lateral unnest(c.jobs) u(job)
    join tidegate.jobs j on j.id = u.job and j.worker = p_worker and j.claim = c.claim and j.state = 'running' where c.worker = p_worker;
  delete from claims c where c.worker = p_worker;
  select * into given from give_back(p_worker, held, tokens, null, lose);
  jobs := cardinality(given.known); dead := given.dead; wake := given.wake;
end $$;
