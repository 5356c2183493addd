-- Locks: the job alone, so that a cancel in an open transaction stalls no queue; a claim passes the locked job over. Cost: one delete, one history row.
-- 'cancelled': it was waiting and will not run. 'cancelling': it runs, its worker is told and gives it up. Null: unknown or finished.
create or replace function tidegate.cancel(job bigint) returns text language plpgsql security definer
set search_path = tidegate, pg_temp set tidegate.inside = on as $$
#variable_conflict use_column
declare
  p_job bigint := cancel.job;
  j jobs;
begin
  perform require_read_committed();
  loop
    select * into j from jobs where id = p_job;
    if not found then
      return null;
    elsif j.state = 'running' then
      update jobs set cancel_at = coalesce(cancel_at, clock_timestamp()) where id = p_job and state = 'running' and worker = j.worker and claim = j.claim;
      if found then
        perform pg_notify('tidegate', 'cancel:' || j.worker);
        return 'cancelling';
      end if;
    else
      delete from jobs where id = p_job and state <> 'running' returning * into j;
      if found then
        perform remember(j, 'cancelled', clock_timestamp());
        if j.state = 'ready' then
          insert into lane_mail(queue, group_key, limit_key, actor, ready) values (j.queue, j.group_key, j.limit_key, j.actor, -1);
        else
          insert into lane_mail(queue, ready) values (j.queue, -1);
        end if;
        return 'cancelled';
      end if;
    end if;
    -- it changed between the look and the lock: look again
  end loop;
end $$;
