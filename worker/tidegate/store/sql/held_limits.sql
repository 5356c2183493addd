select key, max_running, max_starts, rate_window as "window", weight, owner::text as owner
  from tidegate.keys
 where key = any($1::text[]) or owner->>'cluster' = any($2::text[])
