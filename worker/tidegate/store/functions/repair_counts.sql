-- Locks: the caller holds all queues and keys. Cost: everything. Writes the truth, counted from the jobs: mail is dropped, every gate opens. One statement and
-- so one snapshot counts the jobs and drops the mail: what commits meanwhile, or later, is in neither. Every group is weighed again.
create or replace function tidegate.repair_counts() returns void language plpgsql
set search_path = tidegate, pg_temp as $$
begin
  delete from gates;
  update lanes set open = true, gated = false where not open or gated;
  insert into lane_mail(queue, group_key, reopen) select queue, group_key, true from groups;
  with dm as (delete from lane_mail where actor is not null or group_key is null),
  dk as (delete from key_mail),
  a as (
  insert into lane_mail(queue, group_key, limit_key, actor, ready, running, neg, run_at, id, bytes)
  select coalesce(t.queue, l.queue), coalesce(t.group_key, l.group_key), coalesce(t.limit_key, l.limit_key), coalesce(t.actor, l.actor),
         coalesce(t.ready, 0) - coalesce(l.ready, 0), coalesce(t.running, 0) - coalesce(l.running, 0), (t.head).neg, (t.head).run_at, (t.head).id, (t.head).bytes
    from (select queue, group_key, limit_key, actor, count(*) filter (where state = 'ready')::int ready, count(*) filter (where state = 'running')::int running,
                 (array_agg(row(-priority::int, run_at, id, bytes)::place order by -priority::int, run_at, id) filter (where state = 'ready'))[1] head
            from jobs where state in ('ready', 'running') group by 1, 2, 3, 4) t
    full join lanes l using (queue, group_key, limit_key, actor)),
  b as (
  insert into lane_mail(queue, ready, run_at, id)
  select coalesce(q.name, j.queue), coalesce(j.n, 0) - coalesce(q.scheduled, 0), coalesce(j.run_at, 'infinity'), coalesce(j.id, 0)
    from queues q full join (select queue, count(*) n, min(run_at) run_at, min(id) id from jobs where state = 'scheduled' group by 1) j on j.queue = q.name)
  update keys k set running = coalesce(t.running, 0), starts = coalesce((select sum(n) from limit_starts s where s.key = k.key), 0), waiting = '{}'
    from keys o left join (select limit_key, count(*) running from jobs where state = 'running' group by 1) t on t.limit_key = o.key where o.key = k.key;
  update low_waters set neg = -32768, rank = '-infinity', run_at = '-infinity', id = 0;
end $$;
