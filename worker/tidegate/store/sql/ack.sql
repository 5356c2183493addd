select stale, wake from tidegate.ack($1, $2, $3)
