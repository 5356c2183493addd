-- Queues with their live numbers, those too that have nothing but jobs yet: a queue's row is made by what serves or declares it, not by who enqueues.
-- Reads every lane and its mail once, never the jobs that wait.
create or replace view tidegate.queue_status as
with counts as (
  select queue, coalesce(sum(ready) filter (where not later), 0)::bigint ready, sum(running)::bigint running,
         coalesce(sum(ready) filter (where later), 0)::bigint scheduled
    from (select queue, ready, running, false later from tidegate.lanes
          union all select queue, ready, running, actor is null from tidegate.lane_mail) r group by 1)
select n.name, coalesce(q.declared_order, 'priority') declared_order, coalesce(q.suspended, false) suspended, coalesce(q.held_by_hand, false) held_by_hand,
       coalesce(c.ready, 0) ready, coalesce(c.running, 0) running, coalesce(q.scheduled, 0) + coalesce(c.scheduled, 0) scheduled,
       (select count(*) from tidegate.history h where h.state = 'dead' and h.queue = n.name) dead,
       (select count(*) from tidegate.workers w where w.alive and n.name = any(w.queues)) workers,
       q.default_priority, q.default_max_attempts, q.default_timeout, q.keep_succeeded, q.keep_dead, q.owner
  from (select name from tidegate.queues union select queue from counts where ready > 0 or scheduled > 0) n
  left join tidegate.queues q on q.name = n.name
  left join counts c on c.queue = n.name;
