-- Locks: the worker row FOR UPDATE (a claim in flight is waited for). The worker claims nothing more; its next heartbeat tells it.
create or replace function tidegate.drain_worker(worker uuid) returns boolean language plpgsql security definer
set search_path = tidegate, pg_temp as $$
begin
  perform from workers w where w.id = drain_worker.worker and w.alive for update;
  update workers w set draining_at = coalesce(w.draining_at, clock_timestamp()) where w.id = drain_worker.worker and w.alive;
  return found;
end $$;
