-- Locks: all queues, then all keys, in order; waits. Cost: everything. For tests and repair: each row is a count or head that does not agree with the jobs.
create or replace function tidegate.recount(repair boolean default false) returns table(kind text, name text, kept bigint, truth bigint)
language plpgsql security definer set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
begin
  perform require_read_committed();
  perform from queues order by queues.name for no key update;
  perform from keys order by key for no key update;
  return query
  with j as (
    select queue, group_key, limit_key, actor, count(*) filter (where state = 'ready') ready, count(*) filter (where state = 'running') running
      from jobs where state in ('ready', 'running') group by 1, 2, 3, 4),
  m as (
    select queue, group_key, limit_key, actor, sum(ready) ready, sum(running) running from lane_mail where actor is not null group by 1, 2, 3, 4),
  z as (
    select queue, group_key, limit_key, actor, coalesce(l.ready, 0) + coalesce(m.ready, 0) kr, coalesce(l.running, 0) + coalesce(m.running, 0) ku,
           coalesce(j.ready, 0) tr, coalesce(j.running, 0) tu, l.rank, l.weight, sum(l.running) over (partition by queue, group_key) / l.weight true_rank,
           (select case when q.kept_order = 'priority' then 'infinity' else coalesce(k.weight, 1)::float8 end
              from queues q left join keys k on k.key = group_key where q.name = queue) true_weight, row(l.neg, l.run_at, l.id) head, l.id lid
      from lanes l full join j using (queue, group_key, limit_key, actor) full join m using (queue, group_key, limit_key, actor))
  select 'lane ready', concat_ws('/', queue, group_key, limit_key, actor), kr::bigint, tr from z where kr <> tr
  union all
  select 'lane running', concat_ws('/', queue, group_key, limit_key, actor), ku::bigint, tu from z where ku <> tu
  union all
  select 'lane rank', concat_ws('/', queue, group_key, limit_key, actor), (rank * 1000)::bigint, (true_rank * 1000)::bigint from z
   where abs(rank - true_rank) > 1e-9
  union all
  select 'lane weight', concat_ws('/', queue, group_key, limit_key, actor), nullif(weight, 'infinity')::bigint, nullif(true_weight, 'infinity')::bigint from z
   where weight <> true_weight and not exists (
      select from lane_mail y where y.queue = z.queue and y.group_key = z.group_key and y.actor is null)
  union all
  select 'lane head', concat_ws('/', z.queue, z.group_key, z.limit_key, z.actor), z.lid, b.id
    from z cross join lateral (
      select b.id, -b.priority::int neg, b.run_at from jobs b
       where b.queue = z.queue and b.group_key = z.group_key and b.limit_key = z.limit_key and b.actor = z.actor and b.state = 'ready'
       order by -b.priority::int, b.run_at, b.id limit 1) b
   where (z.lid is null or row(b.neg, b.run_at, b.id) < z.head)
     and not exists (
      select from lane_mail y where y.queue = z.queue and y.group_key = z.group_key and y.limit_key = z.limit_key and y.actor = z.actor
         and (y.neg, y.run_at, y.id) <= (b.neg, b.run_at, b.id))
  union all
  select 'lane shut', concat_ws('/', l.queue, l.group_key, l.limit_key, l.actor), l.id, null::bigint from lanes l
   where not l.open and not exists (select from gates g where g.queue = l.queue and g.limit_key = l.limit_key and (g.lane is null or g.lane = l.lane))
  union all
  select 'lane below', concat_ws('/', l.queue, l.group_key, l.limit_key, l.actor), l.id, w.id
    from lanes l join low_waters w on w.queue = l.queue and w.actor = l.actor
   where l.open and l.id is not null and (l.neg, l.rank, l.run_at, l.id) < (w.neg, w.rank, w.run_at, w.id)
  union all
  select 'gate deaf', concat_ws('/', g.queue, g.limit_key), 0, null::bigint from gates g
   where g.lane is null and g.shut and g.recheck_at is null and not exists (select from keys k where k.key = g.limit_key and g.queue = any(k.waiting))
     and not exists (select from lane_mail y where y.queue = g.queue and y.limit_key = g.limit_key and y.reopen)
  union all
  select 'gate ajar', concat_ws('/', g.queue, g.limit_key), 0, null::bigint from gates g
   where g.lane is null and not g.shut and not exists (select from lanes l where l.queue = g.queue and l.limit_key = g.limit_key and l.open and l.gated)
     and not exists (select from lane_mail y where y.queue = g.queue and y.limit_key = g.limit_key and y.reopen)
  union all
  select 'queue scheduled', q.name, q.scheduled + coalesce((select sum(y.ready) from lane_mail y where y.queue = q.name and y.actor is null), 0)::bigint,
         (select count(*) from jobs b where b.queue = q.name and b.state = 'scheduled')
    from queues q
   where q.scheduled + coalesce((select sum(y.ready) from lane_mail y where y.queue = q.name and y.actor is null), 0)
         <> (select count(*) from jobs b where b.queue = q.name and b.state = 'scheduled')
  union all
  select 'key running', coalesce(x.key, t.key), coalesce(x.r, 0)::bigint, coalesce(t.r, 0)
    from (select key, sum(r) r from (select key, running r from keys union all select key, running from key_mail) y group by 1) x
    full join (select limit_key key, count(*) r from jobs where state = 'running' and limit_key <> '' group by 1) t on x.key = t.key
   where coalesce(x.r, 0) <> coalesce(t.r, 0)
  union all
  select 'key starts', k.key, k.starts, coalesce(t.s, 0)::bigint from keys k left join (select key, sum(n) s from limit_starts group by 1) t on t.key = k.key
   where k.starts <> coalesce(t.s, 0);
  if repair then
    perform repair_counts();
  end if;
end $$;
