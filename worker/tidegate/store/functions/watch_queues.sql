-- Locks: its own rows. Cost: one row a queue. What sleep_on is for workers, for an operator, which is none: it wants a NOTIFY when one of exactly these
-- queues has news. It commits this and looks once more, so that what came in between is not missed.
create or replace function tidegate.watch_queues(watcher uuid, queues text[]) returns void language sql security definer
set search_path = tidegate, pg_temp as $$
  delete from sleepers s where s.worker = $1 and s.queue <> all($2);
  insert into sleepers(queue, worker) select q, $1 from unnest($2) q on conflict do nothing;
$$;
