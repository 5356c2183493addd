-- Locks: none. Cost: a few index probes a queue. For idle workers: when a claim of each queue may find something. At or before now: claim; null: nothing known.
create or replace function tidegate.probe(queues text[], actors text[]) returns table(queue text, next_at timestamptz)
language plpgsql security definer set search_path = tidegate, pg_temp set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
#variable_conflict use_column
declare
  at timestamptz := clock_timestamp();
begin
  return query
    select q.name,
           case when q.suspended or q.held_by_hand then null
                when exists (select from lane_mail m where m.queue = q.name and m.xid >= low_water(q.folded))
                  or exists (select from unnest(probe.actors) a join low_waters w on w.queue = q.name and w.actor = a cross join lateral (
                       select from lanes l where l.queue = q.name and l.actor = a and l.open and l.id is not null
                          and (l.neg, l.rank, l.run_at, l.id) >= (w.neg, w.rank, w.run_at, w.id) limit 1) z) then at
                else next_instant(q.name) end
      from unnest(probe.queues) u join queues q on q.name = u;
end $$;
