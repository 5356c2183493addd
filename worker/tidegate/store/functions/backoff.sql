-- The wait after a failed attempt: 1 s doubling to 5 min, with full jitter, so that jobs that failed together do not come back together.
create or replace function tidegate.backoff(attempt int) returns interval language sql volatile as $$
  select random() * least(interval '1 second' * power(2, least($1, 20) - 1), interval '5 minutes')
$$;
