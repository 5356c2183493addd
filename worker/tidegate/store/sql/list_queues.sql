select json_build_object(
         'name', q.name,
         'order', q.declared_order,
         'suspended', q.suspended,
         'held_by_hand', q.held_by_hand,
         'ready', q.ready,
         'running', q.running,
         'runnable', coalesce(d.runnable, 0),
         'blocked', coalesce(d.blocked, 0),
         'scheduled', q.scheduled,
         'dead', q.dead,
         'workers', q.workers,
         'owner', q.owner)::text
from tidegate.queue_status q
left join tidegate.queue_demand d on d.queue = q.name
order by q.name
