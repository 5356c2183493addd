select json_build_object(
         'key', l.key,
         'max_running', l.max_running,
         'max_starts', l.max_starts,
         'window', (extract(epoch from l.rate_window) * 1000000)::bigint,
         'weight', l.weight,
         'running', l.running,
         'waiting', l.waiting,
         'blocked', l.blocked,
         'starts', l.starts,
         'next_start_at', l.next_start_at,
         'owner', l.owner)::text
from tidegate.limit_status l
order by l.key
