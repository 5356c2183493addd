-- Locks: none; the caller holds the queue. Cost: at most `most` mail rows deleted, one lane update for each lane named; the rest only for what is
-- new or changes the order. Returns the rows folded: less than `most` means that the mailbox is empty.
create or replace function tidegate.fold_mail(queue text, most int) returns int language plpgsql
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_queue text := fold_mail.queue;
  -- nothing that commits later can have a lower xid than this
  oldest xid8 := pg_snapshot_xmin(pg_current_snapshot());
  low xid8;
  n int;
  hashes bigint[]; f_groups text[]; f_keys text[]; f_actors text[]; f_ready int[]; f_running int[]; heads place[];
  reopened text[]; weighed text[];
  later bigint; later_at timestamptz; later_id bigint;
begin
  select low_water(folded) into low from queues where name = p_queue;
  with news as (
    delete from lane_mail where ctid = any(array(select ctid from lane_mail where queue = p_queue and xid >= low order by xid limit most)) returning *),
  s as (
    select group_key, limit_key, actor, sum(ready)::int ready, sum(running)::int running, min(id) id, min(run_at) run_at, count(*) c, bool_or(reopen) reopen,
           (array_agg(row(neg, run_at, id, bytes)::place order by neg, run_at, id) filter (where id is not null))[1] head
      from news group by 1, 2, 3)
  select sum(c), array_agg(lane_of(p_queue, group_key, limit_key, actor)) filter (where actor is not null),
         array_agg(group_key) filter (where actor is not null), array_agg(limit_key) filter (where actor is not null),
         array_agg(actor) filter (where actor is not null), array_agg(ready) filter (where actor is not null),
         array_agg(running) filter (where actor is not null), array_agg(head) filter (where actor is not null),
         array_agg(limit_key) filter (where reopen and limit_key is not null), array_agg(group_key) filter (where reopen and actor is null and group_key is not null),
         -- the least run_at with the least id is a bound, which is all that a low water needs to be
         sum(ready) filter (where actor is null), min(run_at) filter (where actor is null), min(id) filter (where actor is null)
    into n, hashes, f_groups, f_keys, f_actors, f_ready, f_running, heads, reopened, weighed, later, later_at, later_id from s;
  n := coalesce(n, 0);
  if hashes is not null then
    perform tell_lanes(p_queue, hashes, f_groups, f_keys, f_actors, f_ready, f_running, heads);
  end if;
  if reopened is not null then
    perform open_lanes(p_queue, reopened, 64);
  end if;
  if weighed is not null then
    perform weigh_lanes(p_queue, weighed);
    perform lower_low_waters(p_queue, array(select unnest(lanes) from groups where queue = p_queue and group_key = any(weighed)));
  end if;
  if n < most and low < oldest or later <> 0 or later_at is not null then
    update queues q
       set folded = case when n < most then oldest else low end, scheduled = q.scheduled + coalesce(later, 0),
           (due_at, due_from, due_id) = (select case when b then later_at else q.due_at end, case when b then later_at else q.due_from end, case when b then later_id else q.due_id end
                                           from (select coalesce((later_at, later_id) < (q.due_from, q.due_id), false) b) z)
     where name = p_queue;
  end if;
  return n;
end $$;
