-- Locks: the cluster's epoch FOR UPDATE, so it waits for a write of the leader before. Cost: one row. Returns the epoch that every later write must name.
create or replace function tidegate.take_office(cluster text, holder text) returns bigint language plpgsql security definer
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  taken bigint;
begin
  if is_name(take_office.cluster) is not true then
    raise exception 'tidegate: cluster: % is not a name: 1 to 200 characters, none of control, no blank at either end', quote_nullable(take_office.cluster)
      using errcode = '22023';
  end if;
  insert into epochs(cluster, epoch, holder) values (take_office.cluster, 0, take_office.holder) on conflict do nothing;
  -- the update alone would take a lock that FOR KEY SHARE does not wait for
  perform from epochs where cluster = take_office.cluster for update;
  update epochs set epoch = epoch + 1, holder = take_office.holder, taken_at = clock_timestamp() where cluster = take_office.cluster
  returning epoch into taken;
  return taken;
end $$;
