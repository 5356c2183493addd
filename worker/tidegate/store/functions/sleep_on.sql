-- Locks: its own rows. Cost: one row a queue. The worker wants a NOTIFY (channel tidegate, payload = the queue) when one of exactly these queues has news.
-- It commits this and claims once more before it sleeps, so that what came in between is not missed.
create or replace function tidegate.sleep_on(worker uuid, queues text[]) returns void language sql security definer
set search_path = tidegate, pg_temp as $$
  delete from sleepers s where s.worker = $1 and s.queue <> all($2);
  insert into sleepers(queue, worker) select q, w.id from (select id from workers where id = $1 and alive for key share) w, unnest($2) q on conflict do nothing;
$$;
