-- Locks: none; the caller holds the keys. Cost: one mail row for each queue that waits.
-- Tells every queue with a gate closed on these keys to look again.
create or replace function tidegate.reopen(held text[]) returns void language plpgsql
set search_path = tidegate, pg_temp as $$
begin
  insert into lane_mail(queue, limit_key, reopen) select q, key, true from keys, unnest(waiting) q where key = any(held);
  perform notify_sleepers(array(select distinct q from keys, unnest(waiting) q where key = any(held)));
  update keys set waiting = '{}' where key = any(held) and waiting <> '{}';
end $$;
