select c.id, c.actor, c.attempt, c.max_attempts, c.priority, c.limit_key, c.group_key, c.headers, c.bytes, c.timeout, c.payload::text, c.place, c.lost, c.next_at, c.wake, c.stale, c.locked, c.cut
  from tidegate.claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) c
