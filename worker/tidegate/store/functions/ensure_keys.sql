-- Locks: advisory on the key, tried, never waited for (set_limit holds it while it inserts). Cost: one insert for each new key, once.
create or replace function tidegate.ensure_keys(wanted text[]) returns void language plpgsql
set search_path = tidegate, pg_temp as $$
declare
  k text;
begin
  for k in select distinct u from unnest(wanted) u where not exists (select from keys where key = u) loop
    if pg_try_advisory_xact_lock(7438, hashtext(k)) then
      -- a fresh look, under the lock: somebody may have made it between the first look and the lock
      if not exists (select from keys where key = k) then
        insert into keys(key) values (k);
      end if;
    end if;
  end loop;
end $$;
