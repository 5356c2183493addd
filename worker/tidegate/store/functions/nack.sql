-- Locks: the jobs by id, then keys SKIP LOCKED; never waits for a key. Cost: as ack, an update instead of a delete for jobs that are tried again.
-- A failed attempt: the job is tried again after backoff(), or is dead when its attempts are used up or `retry` is false; a job whose cancel was asked
-- for becomes cancelled. `dead`: jobs that will not be tried again.
create or replace function tidegate.nack(worker uuid, jobs bigint[], claims bigint[], errors text[], tracebacks text[], retry boolean default true)
returns table(stale bigint[], wake text[], dead bigint[])
language plpgsql security definer set search_path = tidegate, pg_temp set tidegate.inside = on as $$
#variable_conflict use_column
declare
  verdict record;
  part record;
  known bigint[] := '{}';
  busy text[] := '{}';
begin
  perform tidegate.require_read_committed();
  for verdict in
    with held as materialized (
      select j.id, j.claim, j.attempt, v.message, v.trace,
             case when j.cancel_at is not null then 'cancelled' when nack.retry and j.attempt < j.max_attempts then 'retry' else 'dead' end outcome
        from unnest(nack.jobs, nack.claims, nack.errors, nack.tracebacks) v(job, token, message, trace)
        join tidegate.jobs j on j.id = v.job and j.worker is not distinct from nack.worker and j.claim = v.token and j.state = 'running'
       order by j.id for update of j)
    select outcome, array_agg(id) ids, array_agg(claim) claims, array_agg(message) messages, array_agg(trace) traces,
           array_agg(tidegate.backoff(attempt)) delays from held group by outcome
  loop
    if verdict.outcome = 'retry' then
      select p.gone, p.requeued ids into part
        from tidegate.requeue_jobs(nack.worker, verdict.ids, verdict.claims, verdict.delays, true, verdict.messages, verdict.traces, 0) p;
    else
      select p.gone, p.finished ids into part
        from tidegate.finish_jobs(nack.worker, verdict.ids, verdict.claims, verdict.outcome, verdict.messages, verdict.traces) p;
      dead := coalesce(dead, '{}') || part.ids;
    end if;
    known := known || part.ids;
    perform tidegate.mail_leavers(part.gone);
    busy := busy || tidegate.free_keys((part.gone).keys, (part.gone).counts);
  end loop;
  wake := nullif(busy, '{}');
  stale := tidegate.without(nack.jobs, known);
  return next;
end $$;
