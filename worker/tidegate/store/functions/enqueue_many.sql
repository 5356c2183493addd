-- Locks: none but the new rows. Cost: one row a job, one mail row for each lane. Jobs from an array of objects whose fields are the arguments of enqueue();
-- delay and timeout in seconds; an unknown field is refused. Rows come back in the array's order. Jobs with a job_key go one by one, in the
-- order of their keys.
create or replace function tidegate.enqueue_many(jobs jsonb) returns table(ordinal int, id bigint, created boolean)
language plpgsql security definer set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  moment timestamptz := clock_timestamp();
  fields text[] := '{queue,actor,payload,limit_key,group_key,priority,run_at,delay,expires_at,max_attempts,timeout,job_key,headers}';
  odd text;
begin
  -- a misspelt limit_key would be a job without a limit
  select (select min(k) from jsonb_object_keys(j - fields) k) into odd
    from jsonb_array_elements(enqueue_many.jobs) j where jsonb_typeof(j) = 'object' and j - fields <> '{}' limit 1;
  if found then
    raise exception 'tidegate: %: is not a field of a job', odd using errcode = '22023', hint = 'A job has ' || array_to_string(fields, ', ') || '.';
  end if;
  if enqueue_many.jobs @? '$[*].job_key ? (@ != null)' then
    return query
      select z.ordinality::int, e.id, e.created from (
        -- in one order, since each waits for whoever enqueues its job_key at the same time
        select r.* from rows from (jsonb_to_recordset(enqueue_many.jobs) as (queue text, actor text, payload jsonb, limit_key text, group_key text, priority int,
               run_at timestamptz, delay float8, expires_at timestamptz, max_attempts int, timeout float8, job_key text, headers jsonb)) with ordinality r
         order by r.queue collate "C", r.job_key collate "C", r.ordinality) z
       cross join lateral enqueue(z.queue, z.actor, coalesce(z.payload, '{}'), z.limit_key, z.group_key, z.priority, z.run_at, make_interval(secs => z.delay),
               z.expires_at, z.max_attempts, make_interval(secs => z.timeout), z.job_key, z.headers) e
       order by z.ordinality;
    return;
  end if;
  return query
    with rows_ as materialized (
      select r.*, nextval('tidegate.jobs_id_seq') as new_id, coalesce(r.run_at, moment + make_interval(secs => r.delay), moment) as due,
             case when r.queue is null or r.actor is null or r.delay < 0 or r.run_at is not null and r.delay is not null
                    or r.max_attempts not between 1 and 1000 or r.priority not between -32768 and 32767
                  then refuse_job(r.queue, r.actor, r.priority, r.run_at, r.delay, r.max_attempts) end
        from jsonb_to_recordset(enqueue_many.jobs) as r(queue text, actor text, payload jsonb, limit_key text, group_key text, priority int,
               run_at timestamptz, delay float8, expires_at timestamptz, max_attempts int, timeout float8, headers jsonb)),
    made as (
      insert into tidegate.jobs(id, queue, actor, payload, limit_key, group_key, priority, run_at, state, expires_at, max_attempts, timeout, headers)
        overriding system value
      select r.new_id, r.queue, r.actor, coalesce(r.payload, '{}'), coalesce(r.limit_key, ''), coalesce(r.group_key, r.limit_key, ''),
             coalesce(r.priority, q.default_priority, 0), r.due, case when r.due > moment then 'scheduled' else 'ready' end, r.expires_at,
             coalesce(r.max_attempts, q.default_max_attempts, 5), coalesce(make_interval(secs => r.timeout), q.default_timeout), r.headers
        from rows_ r left join queues q on q.name = r.queue)
    select (row_number() over (order by r.new_id))::int, r.new_id, true from rows_ r;
end $$;
