select tidegate.register_worker($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) as registered_at
