-- Locks: the epoch FOR KEY SHARE, then its own rows. Cost: one row a queue. What sleep_on is for workers, for an operator, which is none: it wants a NOTIFY
-- when one of exactly these queues has news. It commits this and looks once more, so that what came in between is not missed. Every leader of a cluster
-- watches under one name: without the fence one that lost its office would take the next one's rows away.
create or replace function tidegate.watch_queues(cluster text, epoch bigint, watcher uuid, queues text[]) returns void language plpgsql security definer
set search_path = tidegate, pg_temp as $$
begin
  perform require_office(watch_queues.cluster, watch_queues.epoch);
  delete from sleepers s where s.worker = watch_queues.watcher and s.queue <> all(watch_queues.queues);
  insert into sleepers(queue, worker) select q, watch_queues.watcher from unnest(watch_queues.queues) q on conflict do nothing;
end $$;
