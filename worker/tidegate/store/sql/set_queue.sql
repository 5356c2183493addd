select json_build_object(
         'name', q.name,
         'order', q.declared_order,
         'suspended', q.suspended,
         'default_priority', q.default_priority,
         'default_max_attempts', q.default_max_attempts,
         'default_timeout', (extract(epoch from q.default_timeout) * 1000000)::bigint,
         'keep_succeeded', (extract(epoch from q.keep_succeeded) * 1000000)::bigint,
         'keep_dead', (extract(epoch from q.keep_dead) * 1000000)::bigint)::text
from tidegate.set_queue($1::text, $2::text::jsonb) q
