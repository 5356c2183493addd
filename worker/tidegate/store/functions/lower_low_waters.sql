-- Locks: none; the caller holds the queue. Cost: these lanes, one row an actor. Called for whatever made lanes stand further ahead:
-- nothing may ever stand before its low water, or no claim would find it. Not `open` alone: a plan made early would read all open lanes for these few.
create or replace function tidegate.lower_low_waters(queue text, moved bigint[]) returns void language plpgsql
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_queue text := lower_low_waters.queue;
begin
  update low_waters w set neg = m.neg, rank = m.rank, run_at = m.run_at, id = m.id
    from (select distinct on (l.actor) l.actor, l.neg, l.rank, l.run_at, l.id from lanes l
           where l.lane = any(moved) and l.queue = p_queue and l.open is not false and l.id is not null order by l.actor, l.neg, l.rank, l.run_at, l.id) m
   where w.queue = p_queue and w.actor = m.actor and (m.neg, m.rank, m.run_at, m.id) < (w.neg, w.rank, w.run_at, w.id);
end $$;
