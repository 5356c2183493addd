-- Locks: none; the caller holds queue and keys. Cost: a lane one index descent for its new head. Accounts from the jobs that really started; a head
-- that was gone, locked or expired is stepped over: expired ones leave, a locked one closes its lane for 5 ms.
create or replace function tidegate.account_slow(queue text, picked tid[], held tidegate.hold, ids bigint[], started bigint[]) returns void language plpgsql
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_queue text := account_slow.queue;
  short boolean := coalesce(cardinality(started), 0) < cardinality(account_slow.ids);
  groups text[];
begin
  if short then
    perform expire_jobs(p_queue, account_slow.ids, held.at);
  end if;
  with t as materialized (
    select lane_of(queue, group_key, limit_key, actor) lane, group_key, limit_key, actor, count(*)::int c from jobs where id = any(started) group by 1, 2, 3, 4),
  u as (
    update lanes l set ready = l.ready - z.c, running = l.running + z.c, rank = case when l.many then l.rank else (l.running + z.c) / l.weight end,
           neg = z.neg, run_at = z.run_at, id = z.id, bytes = z.bytes, open = l.open and not z.stuck,
           gated = l.gated and exists (select from gates g where g.queue = p_queue and g.limit_key = l.limit_key and g.lane is null)
      from (select l.ctid tid, coalesce(t.c, 0) c, h.*, short and coalesce(h.id = any(account_slow.ids), false) stuck
              from unnest(picked) v join lanes l on l.ctid = v
              left join t on t.lane = l.lane and t.group_key = l.group_key and t.limit_key = l.limit_key and t.actor = l.actor
              left join lateral (
                select -j.priority::int neg, j.run_at, j.id, j.bytes from jobs j
                 where lane_of(j.queue, j.group_key, j.limit_key, j.actor) = l.lane and j.state = 'ready' and j.queue = p_queue and j.group_key = l.group_key and j.limit_key = l.limit_key and j.actor = l.actor
                   and (-j.priority::int, j.run_at, j.id) >= (l.neg, l.run_at, l.id) order by -j.priority::int, j.run_at, j.id limit 1) h on true
             where l.id = any(account_slow.ids) or t.c > 0) z
     where l.ctid = z.tid returning l.many and l.weight < 'infinity' and z.c > 0 shared, l.group_key, l.lane, l.limit_key, z.stuck),
  g as (
    insert into gates(queue, limit_key, lane, recheck_at) select p_queue, limit_key, lane, held.at + interval '5 ms' from u
     where stuck and not exists (select from gates g where g.queue = p_queue and g.limit_key = u.limit_key and g.lane = u.lane) returning recheck_at),
  w as (update queues set gate_low = (select min(recheck_at) from g) where name = p_queue and (select min(recheck_at) from g) < gate_low),
  k as (
    update keys m set running = m.running + t.c, starts = m.starts + case when max_starts is null then 0 else t.c end,
           last_mark = case when max_starts is null then last_mark else held.at end
      from (select limit_key, sum(c)::int c from t where limit_key <> '' group by 1) t where m.key = t.limit_key
    returning m.key, t.c, max_starts is not null rated),
  s as (insert into limit_starts select key, held.at, c from k where rated)
  select array_agg(distinct group_key) filter (where shared) into groups from u;
  if groups is not null then
    perform regroup(p_queue, groups);
  end if;
end $$;
