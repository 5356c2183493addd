select tidegate.payload_of($1, $2, $3)::text as payload
