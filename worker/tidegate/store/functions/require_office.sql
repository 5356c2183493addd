-- Locks: the cluster's epoch FOR KEY SHARE, until the caller commits: a new leader waits for it. Raises TG001 when another one took office since.
create or replace function tidegate.require_office(cluster text, epoch bigint) returns void language plpgsql
set search_path = tidegate, pg_temp as $$
begin
  perform from epochs e where e.cluster = require_office.cluster and e.epoch = require_office.epoch for key share;
  if not found then
    raise exception 'tidegate: another operator took office for cluster % after epoch %', quote_nullable(require_office.cluster), require_office.epoch
      using errcode = 'TG001';
  end if;
end $$;
