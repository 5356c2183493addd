-- Locks: the jobs by id, then keys SKIP LOCKED; never waits for a key. Cost: a delete and a history row a job, one update a key, one mail row a lane.
-- These jobs are done. `stale`: jobs that this token no longer held, nothing happened to them. `wake`: keys that were busy: call wake() after commit.
create or replace function tidegate.ack(worker uuid, jobs bigint[], claims bigint[]) returns table(stale bigint[], wake text[])
language plpgsql security definer set search_path = tidegate, pg_temp set tidegate.inside = on as $$
#variable_conflict use_column
declare
  part record;
begin
  perform tidegate.require_read_committed();
  perform from tidegate.jobs j where j.id = any(ack.jobs) order by j.id for update;
  select * into part from tidegate.finish_jobs(ack.worker, ack.jobs, ack.claims, 'succeeded', null, null) f;
  if part.finished is not null then
    perform tidegate.mail_leavers(part.gone);
    wake := tidegate.free_keys((part.gone).keys, (part.gone).counts);
  end if;
  stale := tidegate.without(ack.jobs, part.finished);
  return next;
end $$;
