-- A span until expiry is turned into an instant by this database's clock, one for all jobs of the statement.
select json_agg(json_build_array(e.id, e.created) order by e.ordinal)::text
from tidegate.enqueue_many(case
  when $2::float8 is null then $1::text::jsonb
  else (
    select jsonb_agg(job || jsonb_build_object('expires_at', clock_timestamp() + make_interval(secs => $2::float8)) order by n)
    from jsonb_array_elements($1::text::jsonb) with ordinality as given(job, n))
end) as e
