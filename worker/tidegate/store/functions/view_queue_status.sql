-- Queues with their live numbers. Reads every lane and its mail once, never the jobs that wait.
create or replace view tidegate.queue_status as
with counts as (
  select queue, sum(ready)::bigint ready, sum(running)::bigint running
    from (select queue, ready, running from tidegate.lanes union all select queue, ready, running from tidegate.lane_mail where actor is not null) r group by 1)
select q.name, q.declared_order, q.suspended, q.held_by_hand, coalesce(c.ready, 0) ready, coalesce(c.running, 0) running,
       q.scheduled + coalesce((select sum(m.ready) from tidegate.lane_mail m where m.queue = q.name and m.actor is null), 0)::bigint scheduled,
       (select count(*) from tidegate.history h where h.state = 'dead' and h.queue = q.name) dead,
       (select count(*) from tidegate.workers w where w.alive and q.name = any(w.queues)) workers,
       q.default_priority, q.default_max_attempts, q.default_timeout, q.keep_succeeded, q.keep_dead, q.owner
  from tidegate.queues q left join counts c on c.queue = q.name;
