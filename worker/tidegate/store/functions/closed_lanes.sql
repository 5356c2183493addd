-- Locks: none; the caller holds the queue. Cost: one index descent for each of at most `most` lanes. The first closed lanes of a key and an actor in one of the
-- orders that the queue keeps, but those that wait for a locked job. Without a search_path of its own, so that it is planned as a part of the statement that calls it.
create or replace function tidegate.closed_lanes(queue text, limit_key text, actor text, ranked boolean, most bigint)
returns table(tid tid, neg int, rank float8, run_at timestamptz, id bigint) language sql stable as $$
  (select l.ctid, l.neg, l.rank, l.run_at, l.id from tidegate.lanes l
    where $4 and l.queue = $1 and l.limit_key = $2 and l.actor = $3 and not l.open
      and not exists (select from tidegate.gates g where g.queue = $1 and g.limit_key = $2 and g.lane = l.lane)
    order by l.neg, l.rank, l.run_at, l.id limit $5)
  union all
  (select l.ctid, l.neg, 0, l.run_at, l.id from tidegate.lanes l
    where not $4 and l.queue = $1 and l.limit_key = $2 and l.actor = $3 and not l.open and l.dual
      and not exists (select from tidegate.gates g where g.queue = $1 and g.limit_key = $2 and g.lane = l.lane)
    order by l.neg, l.run_at, l.id limit $5)
$$;
