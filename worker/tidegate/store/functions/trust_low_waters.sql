-- Locks: none while the database is where it was; else settings, all queues, then all keys, in order, once; waits. Cost: a look at the server's identity.
-- Transaction ids are the server's: after a restore of a dump on another server the low waters of mail say nothing there, and once its ids have
-- grown past them they would hide mail that was written since. So they begin anew. Called by each worker that registers, and by maintenance.
create or replace function tidegate.trust_low_waters() returns void language plpgsql security definer
set search_path = tidegate, pg_temp as $$
declare
  here bigint := (select system_identifier from pg_control_system());
begin
  if exists (select from settings where server is not distinct from here) then
    return;
  end if;
  perform from settings for no key update;
  -- a fresh look, under the lock
  if exists (select from settings where server is distinct from here) then
    perform from queues order by name for no key update;
    update queues set folded = '0', swept = '0';
    perform from keys order by key for no key update;
    update keys set folded = '0' where folded <> '0';
    update settings set server = here;
  end if;
end $$;
