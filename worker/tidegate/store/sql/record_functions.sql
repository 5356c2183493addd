insert into tidegate.schema_functions(only_row, digest, release) values (true, $1, $2)
on conflict (only_row) do update set digest = excluded.digest, release = excluded.release, applied_at = clock_timestamp()
