select s.name, s.running, d.runnable, d.blocked, s.scheduled, s.dead, s.workers, s.held_by_hand, d.runnable_since, d.blocked_by::text as blocked_by
  from tidegate.queue_status s
  join tidegate.queue_demand d on d.queue = s.name
 where s.name = any($1::text[])
