select tidegate.watch_queues($1::text, $2::bigint, $3::uuid, $4::text[])
