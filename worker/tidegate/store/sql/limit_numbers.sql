-- Where a start is free, the view's next_start_at is the instant of the look: nothing to show, and another one at every look.
select key, max_running, max_starts, running, waiting, blocked, starts,
       case when starts >= max_starts then next_start_at end as next_start_at
  from tidegate.limit_status
 where key = any($1::text[])
