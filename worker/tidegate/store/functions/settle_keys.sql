-- Locks: none; the caller holds the keys. Cost: at most 10,000 mail rows and 1,000 marks in all.
-- Called only for keys that look full: mail and expired marks only ever lower their counts, so a count without them is safe.
-- `at` is not after the starts that follow: with a later one a mark could expire that still counts for them. Returns the keys still full.
create or replace function tidegate.settle_keys(held text[], at timestamptz) returns text[] language plpgsql
set search_path = tidegate, pg_temp as $$
declare
  oldest xid8 := pg_snapshot_xmin(pg_current_snapshot());
begin
  with mail as (
    delete from key_mail where ctid = any(array(
      select m.ctid from keys k join key_mail m on m.key = k.key and m.xid >= low_water(k.folded) where k.key = any(held) limit 10000))
    returning key, running),
  mark as (
    delete from limit_starts where ctid = any(array(
      select s.ctid from keys k join limit_starts s on s.key = k.key and s.started_at >= k.mark_low and s.started_at <= at - k.rate_window
       where k.key = any(held) order by s.started_at limit 1000))
    returning key, n, started_at),
  change as (
    select key, sum(running) running, sum(n) n, max(low) low, (select count(*) from mail) < 10000 drained
      from (select key, running, 0 n, null::timestamptz low from mail union all select key, 0, n, started_at from mark) z group by key)
  update keys k set running = k.running + c.running, starts = k.starts - c.n, mark_low = coalesce(c.low, k.mark_low),
                    folded = case when c.drained then oldest else k.folded end
    from change c where k.key = c.key;
  return array(select key from keys where key = any(held) and (running >= max_running or starts >= max_starts));
end $$;
