-- Locks: each dead worker's row FOR UPDATE (a claim of its in flight is waited for), its jobs by id, keys SKIP LOCKED. Cost: the jobs that it held.
-- Any worker may rescue, but only one that has had unbroken contact for a full lease, and not within a lease of a server start: else the first worker
-- back after an outage would rescue all the others. Attempts are given back; `dead`: jobs that lost their fifth worker.
create or replace function tidegate.rescue(rescuer uuid) returns table(worker uuid, jobs int, dead int, wake text[])
language plpgsql security definer set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  w record;
  part record;
begin
  perform require_read_committed();
  if not exists (
    select from workers r where r.id = rescue.rescuer and r.alive and r.contact_since + r.lease <= clock_timestamp()
       and r.seen_at + r.lease > clock_timestamp() and pg_postmaster_start_time() + r.lease <= clock_timestamp()) then
    return;
  end if;
  for w in select id from workers where alive and seen_at + lease < clock_timestamp() and id <> rescue.rescuer order by id for update skip locked loop
    -- again in a fresh statement, now that the row is ours: it may have come back while its lock was taken
    continue when not exists (select from workers where id = w.id and alive and seen_at + lease < clock_timestamp());
    select * into part from retire_worker(w.id, 1);
    worker := w.id; jobs := part.jobs; dead := part.dead; wake := part.wake;
    return next;
  end loop;
end $$;
