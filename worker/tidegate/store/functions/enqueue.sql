-- Locks: none but the new row; works at any isolation level and inside any transaction. Cost: one row, one mail row.
-- A job for psql, triggers and other languages, under the rules of the Python library. Precedence: what is given, the queue's defaults, the built-in ones.
-- `created` false: a job of this job_key waits or runs already, it comes back.
create or replace function tidegate.enqueue(queue text, actor text, payload jsonb default '{}', limit_key text default '', group_key text default null,
  priority int default null, run_at timestamptz default null, delay interval default null, expires_at timestamptz default null, max_attempts int default null,
  timeout interval default null, job_key text default null, headers jsonb default null) returns table(id bigint, created boolean)
language plpgsql security definer set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  moment timestamptz := clock_timestamp();
  due timestamptz := coalesce(enqueue.run_at, moment + enqueue.delay, moment);
  q queues;
begin
  if enqueue.run_at is not null and enqueue.delay is not null then
    raise exception 'tidegate: delay: give run_at or delay, not both' using errcode = '22023';
  elsif enqueue.delay < '0' then
    raise exception 'tidegate: delay: must be 0 or longer' using errcode = '22023';
  elsif enqueue.queue is null or enqueue.actor is null then
    raise exception 'tidegate: %: must be given', case when enqueue.queue is null then 'queue' else 'actor' end using errcode = '22023';
  elsif enqueue.priority not between -32768 and 32767 then
    raise exception 'tidegate: priority: must lie between -32768 and 32767' using errcode = '22023';
  elsif enqueue.max_attempts not between 1 and 1000 then
    raise exception 'tidegate: max_attempts: must lie between 1 and 1000' using errcode = '22023';
  end if;
  select z.default_priority, z.default_max_attempts, z.default_timeout into q.default_priority, q.default_max_attempts, q.default_timeout
    from queues z where z.name = enqueue.queue;
  loop
    insert into jobs as j (queue, actor, payload, limit_key, group_key, priority, run_at, state, expires_at, max_attempts, timeout, job_key, headers)
    values (enqueue.queue, enqueue.actor, coalesce(enqueue.payload, '{}'), coalesce(enqueue.limit_key, ''), coalesce(enqueue.group_key, enqueue.limit_key, ''),
            coalesce(enqueue.priority, q.default_priority, 0), due, case when due > moment then 'scheduled' else 'ready' end,
            enqueue.expires_at, coalesce(enqueue.max_attempts, q.default_max_attempts, 5), coalesce(enqueue.timeout, q.default_timeout), enqueue.job_key,
            enqueue.headers)
    on conflict (queue, job_key) where job_key is not null do nothing returning j.id into id;
    created := found;
    if not created then
      select j.id into id from jobs j where j.queue = enqueue.queue and j.job_key = enqueue.job_key;
    end if;
    exit when found;
    -- the other job finished between the two statements: try again
  end loop;
  return next;
end $$;
