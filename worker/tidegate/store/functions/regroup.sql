-- Locks: none; the caller holds the queue. Cost: the lanes of these groups, and for each lane of a key with closed lanes that fell back, the next one.
-- The rank of each lane is the running of its whole group. A closed lane that comes forward opens, unless its gate is shut; where the first open lane
-- of a key falls back, the closed one behind it opens.
create or replace function tidegate.regroup(queue text, changed text[]) returns void language plpgsql
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_queue text := regroup.queue;
  behind text[];
begin
  with z as materialized (
    select o.ctid tid, o.rank old, o.open, sum(o.running) over (partition by g.group_key) / o.weight rank
      from groups g join lanes o on o.lane = any(g.lanes) and o.queue = p_queue and o.group_key = g.group_key
     where g.queue = p_queue and g.group_key = any(changed)),
  u as (
    update lanes l set rank = z.rank, open = l.open or z.rank < z.old and l.id is not null and not is_shut(p_queue, l.limit_key, l.lane)
      from z where l.ctid = z.tid and z.rank <> z.old returning l.limit_key, l.gated and z.open and z.rank > z.old back)
  select array_agg(distinct limit_key) into behind from u where back;
  if behind is not null then
    perform open_lanes(p_queue, behind, 1);
  end if;
end $$;
