-- Locks: none; the caller holds the queue. Cost: at most max(64, 4 x slots) mail rows, `slots` promotions, 4 x slots gates. While more than max(64, 4 x slots) jobs
-- are due at once and others, of actors with room, fill the slots, one claim in 50 ms promotes, the oldest first, and the rest is left to maintenance.
-- Returns whether more is left than one claim may do. Brings the lanes up to `at`: mail, scheduled jobs that are due, gates whose instant has come.
-- Both low waters rise to what comes next, to infinity where nothing does, so that claims until then need not look. Whatever comes
-- before them lowers them: mail of scheduled jobs when it is folded, gates when they are closed, both under the queue's lock.
create or replace function tidegate.catch_up(queue text, slots int, at timestamptz, mail boolean, actors text[], rooms int[]) returns boolean language plpgsql
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_queue text := catch_up.queue;
  low record;
  opened bigint[];
  done tid[];
  due_keys text[];
  n int;
  most int := greatest(64, 4 * slots);
  behind boolean := false;
  spared boolean;
begin
  if mail then
    behind := fold_mail(p_queue, most) >= most;
  end if;
  select due_at, due_id, gate_low into low from queues where name = p_queue;
  if low.due_at <= at then
    if promote_jobs(p_queue, slots) >= slots then
      -- the next ones come with the next claim; those of a mass, where enough is ready, a little later
      select q.due_from <= at and (select sum(a.ready) >= 2 * slots and sum(least(a.ready, coalesce(a.room, slots))) >= slots from (
               select catch_up.rooms[array_position(catch_up.actors, w.actor)] room, sum(l.ready) ready from low_waters w cross join lateral (
                 select ready from lanes l where l.queue = p_queue and l.actor = w.actor and l.open and l.id is not null
                    and (l.neg, l.rank, l.run_at, l.id) >= (w.neg, w.rank, w.run_at, w.id) order by l.neg, l.rank, l.run_at, l.id limit slots) l
                where w.queue = p_queue and w.actor = any(catch_up.actors) group by w.actor) a where a.room > 0 is not false)
             and exists (select from jobs j where j.queue = p_queue and j.state = 'scheduled' and (j.run_at, j.id) >= (q.due_from, q.due_id) and j.run_at <= at
                          order by j.run_at, j.id offset most limit 1)
        into spared from queues q where q.name = p_queue;
      update queues set due_at = at + interval '50 milliseconds' where name = p_queue and spared;
      behind := behind or spared is not true;
    end if;
  end if;
  if low.gate_low <= at then
    select count(*), array_agg(limit_key) filter (where lane is null), array_agg(lane) filter (where lane is not null), array_agg(tid) filter (where lane is not null)
      into n, due_keys, opened, done
      from (select ctid tid, limit_key, lane from gates where queue = p_queue and recheck_at >= low.gate_low and recheck_at <= at order by recheck_at limit 4 * slots) z;
    if n > 0 then
      delete from gates where ctid = any(done);
      update lanes set open = true where queue = p_queue and lane = any(opened) and not open;
      perform lower_low_waters(p_queue, opened);
      perform open_lanes(p_queue, due_keys, 4 * slots);
    end if;
    behind := behind or n >= 4 * slots;
    update queues q set gate_low = coalesce((select recheck_at from gates where queue = p_queue and recheck_at >= q.gate_low order by recheck_at limit 1), 'infinity')
     where q.name = p_queue;
  end if;
  return behind;
end $$;
