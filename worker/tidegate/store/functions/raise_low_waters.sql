-- Locks: none; the caller holds the queue. Cost: these lanes. What stands first now is the new low water; every sixteenth claim is often enough.
create or replace function tidegate.raise_low_waters(queue text, first tid[]) returns void language plpgsql
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_queue text := raise_low_waters.queue;
begin
  update low_waters w set neg = l.neg, rank = l.rank, run_at = l.run_at, id = l.id
    from (select distinct on (actor) * from lanes where ctid = any(first) order by actor, neg, rank, run_at, id) l
   where w.queue = p_queue and w.actor = l.actor;
end $$;
