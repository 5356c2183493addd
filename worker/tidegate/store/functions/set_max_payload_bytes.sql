-- Locks: the row of settings; waits for whoever changes it. How large the payload of a new job may be, in bytes of JSON: 1 MiB unless an operator
-- says otherwise, from 1 KiB to 256 MiB. It binds the next statement that enqueues; jobs that wait are left alone. Returns what was in force before.
create or replace function tidegate.set_max_payload_bytes(bytes int) returns int language plpgsql security definer
set search_path = tidegate, pg_temp as $$
declare
  before int;
begin
  if bytes is null or bytes not between 1024 and 268435456 then
    raise exception 'tidegate: bytes: must lie between 1024 and 268435456' using errcode = '22023';
  end if;
  select max_payload_bytes into strict before from settings for no key update;
  update settings set max_payload_bytes = bytes;
  return before;
end $$;
