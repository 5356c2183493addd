-- Per queue, how many of its waiting jobs the limits would let start: what a scaler may plan workers for (scaling.md). One statement, so one snapshot and one instant.
-- Locks: none. Reads lanes, mail and the keys that wait once, the marks of rated keys, the 1,000 newest rows of history, and per queue at most 100 scheduled
-- jobs that are due and that nobody promoted yet; never the jobs that wait.
-- `waiting` are ready jobs and those due but not promoted, which nobody does where no worker is. Of these `runnable` are those that may start within 30 s, the time that a
-- pod takes to start: per key the least of what waits, max_running less what runs, max_starts less the starts that are still in the window in 30 s, and rate x mean
-- duration less what runs, at least 1, since more would run for moments and then wait for the window.
-- A key's room is given out once: over its queues that are not suspended, in proportion to what waits, the odd ones where least runs.
-- The mean duration is that of the key's jobs among the 1,000 newest in history; without one, running / starts in the window (Little's law);
-- without starts, the rate alone bounds. Jobs without a key, or of a key without limits, are all runnable; those of a suspended queue are not.
-- `blocked` are the waiting jobs that a limit holds back, 0 in a suspended queue, where no limit is asked; `blocked_by` the ten keys that hold most of them,
-- [{"key", "jobs", "by": "MaxRunning" or "Rate"}]. `demand` is running + runnable: workers = ceil(demand / slots). `runnable_since` is the least run_at among the next jobs of
-- the keys with room: a bound for how long the oldest one waits.
create or replace view tidegate.queue_demand as
with moment as materialized (select clock_timestamp() at, interval '30 seconds' horizon),
later as (
  select queue, min(low) low
    from (select name queue, scheduled n, due_from low from tidegate.queues
          union all select queue, ready, coalesce(run_at, 'infinity') from tidegate.lane_mail where actor is null) r
   group by queue having sum(n) > 0),
due as (
  select l.queue, j.limit_key, j.run_at from later l cross join moment cross join lateral tidegate.due_jobs(l.queue, l.low, at, 100) j),
counts as materialized (
  select r.queue, limit_key, coalesce(q.suspended or q.held_by_hand, false) held, sum(ready)::bigint waiting, sum(running)::bigint running, min(run_at) since
    from (select queue, limit_key, ready, running, case when ready > 0 then run_at end run_at from tidegate.lanes
          union all select queue, limit_key, ready, running, run_at from tidegate.lane_mail where actor is not null
          union all select queue, limit_key, 1, 0, run_at from due) r
    left join tidegate.queues q on q.name = r.queue
   group by 1, 2, 3),
durations as (
  select limit_key, avg(extract(epoch from finished_at - started_at)) mean
    from (select limit_key, started_at, finished_at from tidegate.history order by id desc limit 1000) h
   where started_at is not null and limit_key <> '' group by 1),
  -- each is added up once, whatever the planner thinks of the tables' sizes
waits as materialized (
  select k.key, c.waiting, k.max_running, k.max_starts, k.rate_window, k.running + coalesce(m.running, 0) running
    from (select limit_key, sum(waiting)::bigint waiting from counts where not held and waiting > 0 and limit_key <> '' group by 1) c
    join tidegate.keys k on k.key = c.limit_key and (k.max_running is not null or k.max_starts is not null)
    left join (select key, sum(running)::bigint running from tidegate.key_mail group by 1) m on m.key = k.key),
starts as materialized (
  select w.key, sum(n)::bigint used, coalesce(sum(n) filter (where started_at > at + horizon - rate_window), 0)::bigint kept
    from waits w join tidegate.limit_starts m on m.key = w.key cross join moment
   where w.max_starts is not null and m.started_at > at - rate_window group by 1),
  -- null stands for no bound: greatest and least pass over it
bounds as materialized (
  select w.key, w.waiting, w.max_running - w.running running, w.max_starts - coalesce(s.kept, 0) starts,
         case when p.steady is not null then greatest(1, ceil(p.steady))::bigint - w.running end steady
    from waits w left join starts s on s.key = w.key left join durations d on d.limit_key = w.key
   cross join lateral (
     select w.max_starts * coalesce(d.mean / extract(epoch from w.rate_window), w.running::numeric / s.used) steady) p),
rooms as (
  select key, waiting, greatest(0, least(running, starts, steady)) room,
         case when greatest(0, running) <= greatest(0, coalesce(least(starts, steady), running)) and running is not null then 'MaxRunning' else 'Rate' end reason
    from bounds),
parts as (
  select c.*, r.room, r.reason, r.waiting all_waiting, c.waiting * r.room / r.waiting part,
         row_number() over (partition by c.limit_key, c.held, c.waiting > 0 order by c.running, c.queue) turn,
         r.room - sum(c.waiting * r.room / r.waiting) over (partition by c.limit_key, c.held, c.waiting > 0) odd
    from counts c left join rooms r on r.key = c.limit_key and not c.held and c.waiting > 0),
shares as (
  select queue, limit_key, held, waiting, running, since, reason,
         case when held then 0 when room is null or room >= all_waiting then waiting else part + (turn <= odd)::int end runnable
    from parts),
ranked as (
  select *, row_number() over (partition by queue order by case when held then 0 else waiting - runnable end desc, limit_key) place from shares),
totals as (
  select queue, bool_or(held) held, sum(waiting)::bigint waiting, sum(running)::bigint running, sum(runnable)::bigint runnable,
         min(since) filter (where runnable > 0) since,
         jsonb_agg(jsonb_build_object('key', limit_key, 'jobs', waiting - runnable, 'by', reason) order by place)
           filter (where not held and waiting > runnable and place <= 10) blocked_by
    from ranked group by queue)
select n.queue, coalesce(q.suspended or q.held_by_hand, false) suspended, coalesce(t.running, 0) running, coalesce(t.waiting, 0) waiting,
       coalesce(t.runnable, 0) runnable, case when t.held then 0 else coalesce(t.waiting - t.runnable, 0) end blocked,
       coalesce(t.running + t.runnable, 0) demand, t.since runnable_since, coalesce(t.blocked_by, '[]') blocked_by
  from (select name queue from tidegate.queues union select queue from totals) n
  left join tidegate.queues q on q.name = n.queue
  left join totals t on t.queue = n.queue;
