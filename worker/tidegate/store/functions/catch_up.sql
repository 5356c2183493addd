-- Locks: none; the caller holds the queue. Cost: at most max(64, 4 x slots) mail rows, `slots` promotions, 4 x slots gates.
-- Returns whether more is left than one claim may do. Brings the lanes up to `at`: mail, scheduled jobs that are due, gates whose instant has come.
-- Both low waters rise to what comes next, to infinity where nothing does, so that claims until then need not look. Whatever comes
-- before them lowers them: mail of scheduled jobs when it is folded, gates when they are closed, both under the queue's lock.
create or replace function tidegate.catch_up(queue text, slots int, at timestamptz, mail boolean) returns boolean language plpgsql
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
begin
  if mail then
    behind := fold_mail(p_queue, most) >= most;
  end if;
  select due_at, due_id, gate_low into low from queues where name = p_queue;
  if low.due_at <= at then
    n := promote_jobs(p_queue, slots);
    if n > 0 then
      behind := fold_mail(p_queue, most) >= most or n >= slots or behind;
    end if;
    update queues q set (due_at, due_id) = (select coalesce(j.run_at, 'infinity'), coalesce(j.id, 0) from (select) one left join (
        select run_at, id from jobs where queue = p_queue and state = 'scheduled' and (run_at, id) >= (q.due_at, q.due_id) order by run_at, id limit 1) j on true)
     where q.name = p_queue;
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
