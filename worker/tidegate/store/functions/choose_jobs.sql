-- Locks: none; the caller holds queue and keys. Cost: n lanes x (2 x slots / n + 2) jobs read.
-- The exact order, job by job, over the lanes picked: within the room of keys and actors and the byte budget. Stops, with `more`, where a lane's
-- candidates end or, in fair order, a group has other lanes, since the next job might then be one that was not looked at. The cut is at the first job that does not fit
-- the budget; `final` says so, and `cut` how large it is. As the first one it goes alone: if it is not larger than `p_largest` or, whatever else there
-- is, larger than `p_refused`. An expired one will leave without a start and takes no bytes and no share.
create or replace function tidegate.choose_jobs(queue text, ranked boolean, picked tid[], held tidegate.hold, p_actors text[], p_slots int, p_first boolean,
  p_rooms int[], p_budget bigint, p_largest bigint, p_refused bigint, out ids bigint[], out more boolean, out final boolean, out cut bigint) language plpgsql
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_queue text := choose_jobs.queue;
  depth int := 2 * p_slots / cardinality(picked) + 1;
  room_of int[] := held.rooms;
  rooms int[] := p_rooms;
  budget bigint := p_budget;
  c record;
  k int;
  a int;
begin
  ids := '{}'; more := false; final := false;
  for c in
    select l.limit_key, l.actor, l.many, j.id, j.bytes, j.k
      from unnest(picked) t join lanes l on l.ctid = t and l.open
     cross join lateral (
       select -j.priority::int neg, j.run_at, j.id, case when j.expires_at <= held.at then 0 else j.bytes end bytes, row_number() over w k,
              count(*) filter (where j.expires_at <= held.at is not true) over (w rows between unbounded preceding and 1 preceding) ahead from jobs j
        where lane_of(j.queue, j.group_key, j.limit_key, j.actor) = l.lane and j.state = 'ready' and j.queue = p_queue and j.group_key = l.group_key and j.limit_key = l.limit_key and j.actor = l.actor
          and (-j.priority::int, j.run_at, j.id) >= (l.neg, l.run_at, l.id) window w as (order by -j.priority::int, j.run_at, j.id) order by -j.priority::int, j.run_at, j.id limit depth + 1) j
     order by j.neg, case when not ranked then 0 when l.many then l.rank else (l.running + j.ahead) / l.weight end, j.run_at, j.id
  loop
    k := array_position(held.keys, c.limit_key);
    a := array_position(p_actors, c.actor);
    if c.limit_key <> '' and k is null then
      continue;
    elsif room_of[k] <= 0 or rooms[a] <= 0 then
      -- used up by this very round: the lanes behind the ones picked get their turn in the next, and a head among them may stand before what follows here
      more := true;
      exit when c.k = 1;
      continue;
    end if;
    if c.k > depth then
      more := true;
      exit;
    end if;
    if c.bytes > budget then
      if p_first and ids = '{}' and (coalesce(c.bytes <= p_largest, true) or c.bytes > p_refused) then
        ids := array[c.id];
      else
        cut := c.bytes;
      end if;
      final := true;
      exit;
    end if;
    ids := ids || c.id;
    rooms[a] := rooms[a] - 1;
    budget := budget - c.bytes;
    if k is not null then
      room_of[k] := room_of[k] - 1;
    end if;
    exit when cardinality(ids) >= p_slots;
    if c.many and choose_jobs.ranked then
      more := true;
      exit;
    end if;
  end loop;
end $$;
