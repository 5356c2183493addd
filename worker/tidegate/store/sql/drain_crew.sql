select tidegate.drain_crew($1::text, $2::bigint, $3::uuid[]) as drained
