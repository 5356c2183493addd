-- Locks: the cluster's epoch, against another sweep. Cost: one row. Takes one from the budget of `most` rows given up within a minute; false where it is spent.
-- The budget lies in the database, so that an operator that is started again and again does not get a new one each time.
create or replace function tidegate.spend_sweep(cluster text, most int) returns boolean language plpgsql
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  at timestamptz := clock_timestamp();
  recent timestamptz[];
begin
  select array(select t from unnest(swept) t where t > at - interval '1 minute') into recent
    from epochs where cluster = spend_sweep.cluster for no key update;
  if cardinality(recent) >= most then
    return false;
  end if;
  update epochs set swept = recent || at where cluster = spend_sweep.cluster;
  return true;
end $$;
