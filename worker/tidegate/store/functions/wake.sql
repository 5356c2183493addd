-- Locks: keys SKIP LOCKED. Cost: one mail row for each queue that waits. To be called after the commit of an outcome that met a busy key:
-- whoever closed a gate meanwhile is told. Returns the keys that are busy again: call once more.
create or replace function tidegate.wake(keys text[]) returns text[] language plpgsql security definer
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  held text[];
begin
  perform tidegate.require_read_committed();
  select array_agg(key) into held from (select key from tidegate.keys where key = any(wake.keys) for no key update skip locked) z;
  if held is not null then
    perform tidegate.reopen(held);
  end if;
  -- a key that has no row was never busy
  return array(select k from unnest(wake.keys) k where k <> all(coalesce(held, '{}')) and exists (select from tidegate.keys where key = k));
end $$;
