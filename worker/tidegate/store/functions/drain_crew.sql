-- Locks: the epoch FOR KEY SHARE, then worker rows FOR UPDATE in the order of their ids (a claim in flight is waited for). Cost: one row a worker.
-- What drain_worker does, for the workers that the leader of a cluster takes away. Returns how many of them are alive.
create or replace function tidegate.drain_crew(cluster text, epoch bigint, workers uuid[]) returns int language plpgsql security definer
set search_path = tidegate, pg_temp as $$
begin
  perform require_office(drain_crew.cluster, drain_crew.epoch);
  perform from tidegate.workers w where w.id = any(drain_crew.workers) and w.alive order by w.id for update;
  return (select count(*) from (select drain_worker(u) alive from unnest(drain_crew.workers) u) d where alive);
end $$;
