select json_build_array(e.id, e.created)::text
from tidegate.enqueue(
  queue => $1::text,
  actor => $2::text,
  payload => $3::text::jsonb,
  limit_key => $4::text,
  group_key => $5::text,
  priority => $6::int,
  run_at => $7::text::timestamptz,
  delay => make_interval(secs => $8::float8),
  expires_at => coalesce($9::text::timestamptz, clock_timestamp() + make_interval(secs => $10::float8)),
  max_attempts => $11::int,
  timeout => make_interval(secs => $12::float8),
  job_key => $13::text,
  headers => $14::text::jsonb) as e
