-- Locks: its worker row, then what it gives back. Cost: one update, the claims rows of the worker, one look at each job held.
-- Extends the lease and compares both sides. held_jobs, held_claims: every job whose outcome is not acknowledged yet; next_claim: the least claim whose
-- reply has not fully arrived. Jobs of older claims that the worker does not hold never reached it: they go back unspent (`returned`).
-- `missing`: held jobs that do not run under their token any more; `cancelled`: held jobs whose cancel was asked for.
create or replace function tidegate.heartbeat(worker uuid, held_jobs bigint[], held_claims bigint[], next_claim bigint, unbroken boolean)
returns table(alive boolean, draining boolean, seen_at timestamptz, cancelled bigint[], missing bigint[], returned int, wake text[])
language plpgsql security definer set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_worker uuid := heartbeat.worker;
  lost_jobs bigint[];
  lost_claims bigint[];
  looked bigint[];
begin
  perform require_read_committed();
  update workers w set seen_at = clock_timestamp(),
         contact_since = case when unbroken and clock_timestamp() - w.seen_at < w.lease then w.contact_since else clock_timestamp() end
   where w.id = p_worker and w.alive returning true, w.draining_at is not null, w.seen_at into alive, draining, seen_at;
  returned := 0;
  if not found then
    alive := false; draining := false;
    return next;
    return;
  end if;
  select array_agg(j.id) filter (where j.cancel_at is not null), array_agg(h.job) filter (where j.id is null) into cancelled, missing
    from unnest(held_jobs, held_claims) h(job, token)
    left join jobs j on j.id = h.job and j.worker = p_worker and j.claim = h.token and j.state = 'running';
  -- one list for both statements: a claim that the worker gave up may commit between them, and is for the next heartbeat
  looked := array(select c.claim from claims c where c.worker = p_worker and c.claim < next_claim);
  select array_agg(j.id), array_agg(j.claim) into lost_jobs, lost_claims
    from claims c cross join lateral unnest(c.jobs) u(job) join jobs j on j.id = u.job and j.worker = p_worker and j.claim = c.claim and j.state = 'running'
   where c.worker = p_worker and c.claim = any(looked) and u.job <> all(held_jobs);
  if lost_jobs is not null then
    select cardinality(g.known), g.wake into returned, wake from give_back(p_worker, lost_jobs, lost_claims, null, 0) g;
  end if;
  delete from claims c where c.worker = p_worker and c.claim = any(looked) and c.claim <> all(held_claims);
  return next;
end $$;
