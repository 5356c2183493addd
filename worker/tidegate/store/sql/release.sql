select stale, wake from tidegate.release($1, $2, $3, $4)
