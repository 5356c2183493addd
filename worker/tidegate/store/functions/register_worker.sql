-- Locks: new rows only. Cost: one row, and one for each queue never seen. A worker takes part from here on; its lease runs from the returned instant.
create or replace function tidegate.register_worker(worker uuid, name text, queues text[], actors text[], slots int, fair boolean, lease interval, version text,
  namespace text default null, pod text default null) returns timestamptz language plpgsql security definer
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  seen timestamptz;
begin
  perform trust_low_waters();
  perform tidegate.ensure_queue(q) from unnest(register_worker.queues) q
    where not exists (select from tidegate.queues z where z.name = q) order by q collate "C";
  insert into workers(id, name, queues, actors, slots, fair, lease, version, namespace, pod)
  values (register_worker.worker, register_worker.name, register_worker.queues, register_worker.actors, register_worker.slots, register_worker.fair,
          register_worker.lease, register_worker.version, register_worker.namespace, register_worker.pod) returning seen_at into seen;
  return seen;
end $$;
