-- Locks: none. Makes the queue's row where it is the first time that anybody claims from it.
-- Errors: the worker is not registered, or no longer.
create or replace function tidegate.admit_worker(worker uuid, queue text) returns void language plpgsql
set search_path = tidegate, pg_temp as $$
begin
  if not exists (select from workers w where w.id = admit_worker.worker and w.alive) then
    raise exception 'tidegate: worker % is not registered, or its lease ran out and its jobs were given to others', admit_worker.worker
      using errcode = 'P0002', hint = 'Call tidegate.register_worker() with a new id.';
  end if;
  perform ensure_queue(admit_worker.queue);
end $$;
