-- Locks: none. Cost: two index probes from their low waters. When a queue will have more to start without any event: the next closed gate or scheduled job.
create or replace function tidegate.next_instant(queue text) returns timestamptz language plpgsql
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_queue text := next_instant.queue;
  q record;
begin
  select gate_low, due_at, due_from, due_id into q from queues where name = p_queue;
  return least((select recheck_at from gates where queue = p_queue and recheck_at >= q.gate_low order by recheck_at limit 1),
               (select greatest(run_at, q.due_at) from jobs where queue = p_queue and state = 'scheduled' and (run_at, id) >= (q.due_from, q.due_id) order by run_at, id limit 1));
end $$;
