select tidegate.watch_queues($1::uuid, $2::text[])
