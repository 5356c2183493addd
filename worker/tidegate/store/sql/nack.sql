select stale, wake, dead from tidegate.nack($1, $2, $3, $4, $5, $6)
