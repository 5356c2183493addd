-- Locks: none; the caller holds queue and keys. Cost: for each key that had lanes closed, the next lanes that it has room for. After a round that started
-- from gated lanes: a key with room left opens its next lanes, a full one registers. Returns whether lanes opened.
create or replace function tidegate.look_after_gates(queue text, held tidegate.hold, most int) returns boolean language plpgsql
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_queue text := look_after_gates.queue;
  full_ text[];
  roomy text[];
begin
  if held.watched = '{}' then
    return false;
  end if;
  select array_agg(k.key) filter (where k.running >= k.max_running or k.starts >= k.max_starts),
         array_agg(k.key) filter (where not coalesce(k.running >= k.max_running or k.starts >= k.max_starts, false))
    into full_, roomy from keys k
   where k.key = any(held.watched) and exists (select from gates g where g.queue = p_queue and g.limit_key = k.key and g.lane is null);
  if full_ is not null then
    perform close_gates(p_queue, full_, held.at);
  end if;
  if roomy is not null then
    return open_lanes(p_queue, roomy, greatest(1, most));
  end if;
  return false;
end $$;
