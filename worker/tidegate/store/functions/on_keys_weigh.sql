-- Locks: advisory (7439, 0), waits for claims that make the first lanes of a queue. Cost: one mail row a queue, for a new weight alone. At the end of the
-- transaction: a queue that came into being while it was open has lanes of the old weight, and was not there yet when the weight was set. From this look until the
-- weight is committed no lane of an unseen queue is made (make_lanes), and those made before are committed, so that this look finds their queue.
create or replace function tidegate.on_keys_weigh() returns trigger language plpgsql security definer
set search_path = tidegate, pg_temp as $$
begin
  perform pg_advisory_xact_lock(7439, 0);
  insert into lane_mail(queue, group_key, reopen)
  select q.name, new.key, true from queues q
   where not exists (select from lane_mail m where m.queue = q.name and m.group_key = new.key and m.actor is null and m.xid = pg_current_xact_id());
  return null;
end $$;

drop trigger if exists keys_weigh on tidegate.keys;
create constraint trigger keys_weigh after update of weight on tidegate.keys deferrable initially deferred
  for each row when (old.weight is distinct from new.weight) execute function tidegate.on_keys_weigh();
