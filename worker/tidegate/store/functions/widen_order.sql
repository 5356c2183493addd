-- Locks: none; the caller holds the queue. Cost: every lane of the queue, once in its life. The queue's lanes are ranked for one more order.
create or replace function tidegate.widen_order(queue text, wanted text) returns text language plpgsql
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_queue text := widen_order.queue;
  kept text;
begin
  kept := case when exists (select from groups where queue = p_queue) then 'both' else wanted end;
  update queues set kept_order = kept where name = p_queue;
  if kept = 'both' then
    update lanes set dual = true where queue = p_queue;
    perform tidegate.weigh_lanes(p_queue, array(select group_key from groups where queue = p_queue));
    update low_waters w set neg = -32768, rank = '-infinity', run_at = '-infinity', id = 0 where w.queue = p_queue;
  end if;
  return kept;
end $$;
