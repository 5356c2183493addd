select alive, draining, seen_at, cancelled, missing, returned, wake from tidegate.heartbeat($1, $2, $3, $4, $5)
