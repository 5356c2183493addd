-- Policies with their live use. Reads every lane and its mail once, never the jobs.
-- blocked: waiting jobs that the limit would not let start now; next_start_at: when it lets one start, null while max_running holds the key or a part of it is 0.
create or replace view tidegate.limit_status as
with waiting as (
  select limit_key, sum(ready)::bigint waiting
    from (select limit_key, ready from tidegate.lanes union all select limit_key, ready from tidegate.lane_mail where actor is not null) r group by 1)
select l.key, l.max_running, l.max_starts, l.rate_window, l.weight, u.running, coalesce(w.waiting, 0) waiting,
       greatest(0, coalesce(w.waiting, 0) - greatest(0, least(coalesce(l.max_running - u.running, 9223372036854775807), coalesce(l.max_starts - s.starts, 9223372036854775807)))) blocked,
       s.starts,
       case when l.max_running <= u.running or l.max_starts = 0 then null when l.max_starts <= s.starts then f.freed + l.rate_window else clock_timestamp() end next_start_at,
       l.owner, l.updated_at
  from tidegate.limits l
  join tidegate.keys k on k.key = l.key
  left join waiting w on w.limit_key = l.key
 cross join lateral (select k.running + coalesce((select sum(m.running) from tidegate.key_mail m where m.key = l.key), 0)::bigint running) u
 cross join lateral (
   select coalesce(sum(n), 0)::bigint starts from tidegate.limit_starts m
    where m.key = l.key and m.started_at > clock_timestamp() - l.rate_window) s
  left join lateral (
   select min(started_at) freed
     from (select started_at, sum(n) over (order by started_at) gone from tidegate.limit_starts m
            where m.key = l.key and m.started_at > clock_timestamp() - l.rate_window) g
    where s.starts - gone < l.max_starts) f on l.max_starts <= s.starts;
