select name, declared_order as "order", suspended, default_priority, default_max_attempts, default_timeout,
       keep_succeeded, keep_dead, owner::text as owner
  from tidegate.queues
 where name = any($1::text[]) or owner->>'cluster' = any($2::text[])
