-- Locks: keys SKIP LOCKED. Cost: at most `most` mail rows. Finishes that met a busy key and whose caller died before wake(): the mail is settled and
-- whoever waits is told. Returns the mail rows seen.
create or replace function tidegate.sweep_keys(most int) returns int language plpgsql security definer
set search_path = tidegate, pg_temp set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  mailed text[] := array(select key from key_mail limit most);
  held text[];
begin
  select array_agg(key) into held from (select key from keys where key = any(mailed) for no key update skip locked) z;
  if held is not null then
    perform settle_keys(held, clock_timestamp());
    perform reopen(held);
  end if;
  return cardinality(mailed);
end $$;
