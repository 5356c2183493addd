-- Locks: the jobs by id, then keys SKIP LOCKED. Cost: one update a job and key, one mail row a lane.
-- Jobs leave running without having spent their attempt. `lose` 1: their worker vanished; a job that lost five workers is taken for one that
-- kills its process and is dead. `known`: what really left; `dead`: how many of them are dead; `wake`: busy keys.
create or replace function tidegate.give_back(worker uuid, jobs bigint[], claims bigint[], delay interval, lose int,
  out known bigint[], out dead int, out wake text[]) language plpgsql
set search_path = tidegate, pg_temp set tidegate.inside = on as $$
#variable_conflict use_column
declare
  verdict record;
  part record;
  busy text[] := '{}';
begin
  known := '{}';
  dead := 0;
  for verdict in
    with held as materialized (
      select j.id, j.claim,
             case when j.cancel_at is not null then 'cancelled' when give_back.lose > 0 and j.lost + give_back.lose >= 5 then 'dead' else 'again' end outcome
        from unnest(give_back.jobs, give_back.claims) v(job, token)
        join tidegate.jobs j on j.id = v.job and j.worker is not distinct from give_back.worker and j.claim = v.token and j.state = 'running'
       order by j.id for update of j)
    select outcome, array_agg(id) ids, array_agg(claim) claims, count(*)::int n from held group by outcome
  loop
    if verdict.outcome = 'again' then
      select p.gone, p.requeued ids into part
        from tidegate.requeue_jobs(give_back.worker, verdict.ids, verdict.claims, array_fill(give_back.delay, array[verdict.n]), false, null, null, give_back.lose) p;
    else
      select p.gone, p.finished ids into part
        from tidegate.finish_jobs(give_back.worker, verdict.ids, verdict.claims, verdict.outcome,
               case verdict.outcome when 'dead' then array_fill('the worker vanished while it ran this job, the fifth time'::text, array[verdict.n]) end, null) p;
      dead := dead + case verdict.outcome when 'dead' then verdict.n else 0 end;
    end if;
    known := known || part.ids;
    perform tidegate.mail_leavers(part.gone);
    busy := busy || tidegate.free_keys((part.gone).keys, (part.gone).counts);
  end loop;
  wake := nullif(busy, '{}');
end $$;
