-- Locks: the job, or its history row. Cost: one insert. A finished job runs again under its id with fresh attempts; a job that waits for later runs now.
-- What it waited for decides: behind a cancel it retries the cancelled job.
-- Null: unknown. 55000: it is ready or running already, or another job has its job_key.
create or replace function tidegate.retry(job bigint) returns text language plpgsql security definer
set search_path = tidegate, pg_temp set tidegate.inside = on as $$
#variable_conflict use_column
declare
  p_job bigint := retry.job;
  h history;
  j jobs;
begin
  loop
    delete from history where id = p_job returning * into h;
    if found then
      insert into jobs(id, queue, actor, group_key, limit_key, job_key, priority, max_attempts, timeout, headers, payload, created_at) overriding system value
      values (h.id, h.queue, h.actor, h.group_key, h.limit_key, h.job_key, h.priority, h.max_attempts, h.timeout, h.headers, h.payload, h.created_at)
      on conflict (queue, job_key) where job_key is not null do nothing;
      if not found then
        raise exception 'tidegate: job % cannot run again: another job of queue % has its job_key', p_job, h.queue using errcode = '55000';
      end if;
      return 'ready';
    end if;
    select * into j from jobs where id = p_job;
    if found and j.state <> 'scheduled' then
      raise exception 'tidegate: job % is % already', p_job, j.state using errcode = '55000';
    elsif found then
      update jobs set run_at = clock_timestamp(), state = 'ready' where id = p_job and state = 'scheduled' returning * into j;
      if found then
        insert into lane_mail(queue, group_key, limit_key, actor, ready, neg, run_at, id, bytes)
        values (j.queue, j.group_key, j.limit_key, j.actor, 1, -j.priority::int, j.run_at, j.id, j.bytes);
        insert into lane_mail(queue, ready) values (j.queue, -1);
        perform notify_sleepers(array[j.queue]);
        return 'ready';
      end if;
    elsif not exists (select from history where id = p_job) then
      return null;
    end if;
    -- it was cancelled, promoted or finished between two looks: look again
  end loop;
end $$;
