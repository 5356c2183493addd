-- Locks: none; the caller holds queue and keys. Cost: one row a key. These keys are full and have closed lanes: the gate says when to look again, the queue
-- is registered at the key, so that whoever frees capacity under its lock tells us.
create or replace function tidegate.close_gates(queue text, full_keys text[], at timestamptz) returns void language plpgsql
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_queue text := close_gates.queue;
begin
  delete from gates where queue = p_queue and limit_key = any(full_keys) and lane is null;
  insert into gates(queue, limit_key, recheck_at)
  select p_queue, m.key, case when m.max_starts <= m.starts and m.max_starts > 0 then greatest(at,
           (select min(s.started_at) from limit_starts s where s.key = m.key and s.started_at >= m.mark_low) + m.rate_window) end
    from keys m where m.key = any(full_keys);
  -- nothing may stand below the low water, or nobody would look
  update queues q set gate_low = g.low from (select min(recheck_at) low from gates where queue = p_queue and limit_key = any(full_keys)) g
   where q.name = p_queue and g.low < q.gate_low;
  update keys set waiting = waiting || p_queue where key = any(full_keys) and p_queue <> all(waiting);
end $$;
