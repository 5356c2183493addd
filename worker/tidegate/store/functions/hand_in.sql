-- Locks: the jobs SKIP LOCKED, keys SKIP LOCKED; the caller holds the queue. Cost: a delete and a history row a job, one update a lane and key.
-- What succeeded, told together with the next claim. Lanes of other queues get mail, and so do those that are still to be made. `wake`: busy keys; `stale`:
-- jobs that the token does not hold; `locked`: those that somebody has locked, a cancel in an open transaction, say. Nobody waits for a job under a queue.
create or replace function tidegate.hand_in(worker uuid, queue text, jobs bigint[], claims bigint[], out wake text[], out stale bigint[], out locked bigint[])
language plpgsql
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_queue alias for $2;
  part record;
  gone leavers;
  several boolean;
  below boolean;
  told int[];
begin
  select f.* into part from finish_jobs(hand_in.worker, hand_in.jobs, hand_in.claims, 'succeeded', null, null) f;
  if part.finished is null or cardinality(part.finished) < cardinality(hand_in.jobs) then
    locked := array(
      select j.id from unnest(hand_in.jobs, hand_in.claims) u(job, token)
        join tidegate.jobs j on j.id = u.job and j.worker = hand_in.worker and j.claim = u.token and j.state = 'running' and u.job <> all(coalesce(part.finished, '{}')));
    stale := without(hand_in.jobs, part.finished || locked);
    locked := nullif(locked, '{}');
  end if;
  if part.finished is null then
    return;
  end if;
  gone := part.gone;
  wake := free_keys(gone.keys, gone.counts);
  with u as (
    update lanes l set running = l.running - u.n, rank = case when l.many then l.rank else (l.running - u.n) / l.weight end,
           open = l.open or l.weight < 'infinity' and l.id is not null and not is_shut(p_queue, l.limit_key, l.lane)
      from unnest(gone.lanes, gone.queues, gone.groups, gone.keys, gone.actors, gone.counts) with ordinality u(h, q, g, k, a, n, o)
     where u.q = p_queue and l.lane = u.h and l.queue = p_queue and l.group_key = u.g and l.limit_key = u.k and l.actor = u.a
    returning u.o::int o, l.many and l.weight < 'infinity' many, l.weight < 'infinity' and l.open and (l.neg, l.rank, l.run_at, l.id) <
      (select w.neg, w.rank, w.run_at, w.id from low_waters w where w.queue = p_queue and w.actor = l.actor) below)
  select bool_or(u.many), bool_or(u.below), array_agg(u.o) into several, below, told from u;
  if several then
    perform regroup(p_queue, gone.groups);
    perform lower_low_waters(p_queue, gone.lanes || array(select unnest(lanes) from groups where queue = p_queue and group_key = any(gone.groups)));
  elsif below then
    perform lower_low_waters(p_queue, gone.lanes);
  end if;
  if cardinality(told) is distinct from cardinality(gone.lanes) then
    insert into lane_mail(queue, group_key, limit_key, actor, running)
    select q, g, k, a, -n from unnest(gone.queues, gone.groups, gone.keys, gone.actors, gone.counts) with ordinality u(q, g, k, a, n, o)
     where o <> all(coalesce(told, '{}'));
  end if;
end $$;
