-- Locks: its worker row FOR UPDATE, then as rescue. Cost: the jobs that it still holds. A worker that ends cleanly: what it holds goes back unspent.
-- `wake`: keys that were busy: call wake() after commit.
create or replace function tidegate.leave(worker uuid) returns table(returned int, wake text[]) language plpgsql security definer
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_worker uuid := leave.worker;
begin
  perform require_read_committed();
  perform from workers w where w.id = p_worker and w.alive for update;
  if found then
    return query select r.jobs, r.wake from retire_worker(p_worker, 0) r;
  else
    return query select 0, null::text[];
  end if;
end $$;
