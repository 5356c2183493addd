-- Locks: keys SKIP LOCKED. Cost: one look at each key and lane, at most `most` deleted. Keys without policy, marks, running jobs and lanes that did not change
-- since the last sweep of every queue: the next claim under one makes it anew. Returns the keys dropped.
create or replace function tidegate.sweep_idle_keys(most int) returns int language plpgsql security definer
set search_path = tidegate, pg_temp as $$
declare
  n int;
begin
  delete from keys where ctid = any(array(
    select k.ctid from keys k
     where k.max_running is null and k.max_starts is null and k.weight is null and k.owner is null and k.running = 0 and k.starts = 0 and k.waiting = '{}'
       and age(k.xmin) > (select age(min(swept)::xid) from queues)
       and not exists (select from lanes l where l.limit_key = k.key) and not exists (select from key_mail m where m.key = k.key)
     limit most for update of k skip locked));
  get diagnostics n = row_count;
  return n;
end $$;
