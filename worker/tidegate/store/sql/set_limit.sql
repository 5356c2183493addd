select json_build_object(
         'key', l.key,
         'max_running', l.max_running,
         'max_starts', l.max_starts,
         'window', (extract(epoch from l.rate_window) * 1000000)::bigint,
         'weight', l.weight)::text
from tidegate.change_limit($1::text, $2::text::jsonb) l
