-- Says why a job of enqueue_many is refused, from within the one statement that reads them all.
create or replace function tidegate.refuse_job(queue text, actor text, priority int, run_at timestamptz, delay float8, max_attempts int) returns text
language plpgsql set search_path = tidegate, pg_temp as $$
begin
  raise exception 'tidegate: %', case when queue is null then 'queue: must be given' when actor is null then 'actor: must be given' when delay < 0 then 'delay: must be 0 or longer'
    when run_at is not null and delay is not null then 'delay: give run_at or delay, not both'
    when max_attempts not between 1 and 1000 then 'max_attempts: must lie between 1 and 1000'
    else 'priority: must lie between -32768 and 32767' end using errcode = '22023';
end $$;
