-- Locks: none but the rows. Cost: at most `most` rows each. Drops finished jobs past their keep_until, and workers that ended a day ago. Returns the jobs dropped.
create or replace function tidegate.sweep_history(most int) returns int language plpgsql security definer
set search_path = tidegate, pg_temp set enable_seqscan = off as $$
declare
  at timestamptz := clock_timestamp();
  n int;
begin
  delete from history where id = any(array(select id from history where keep_until < at order by keep_until limit most for update skip locked));
  get diagnostics n = row_count;
  delete from workers where not alive and seen_at < at - interval '1 day';
  return n;
end $$;
