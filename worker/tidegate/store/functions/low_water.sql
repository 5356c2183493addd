-- A low water of transaction ids that can be trusted: one from the future was restored from another server's dump, and says nothing here.
create or replace function tidegate.low_water(folded xid8) returns xid8 language sql stable parallel safe as $$
  select case when $1 > pg_snapshot_xmax(pg_current_snapshot()) then '0'::xid8 else $1 end
$$;
