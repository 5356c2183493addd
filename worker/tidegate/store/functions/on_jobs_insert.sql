-- Locks: none; producers never touch lanes, keys or queues. Cost: one mail row for each lane and statement, however many rows.
-- SECURITY DEFINER: whoever may insert a job may not write mail, and cannot forge a lane.
create or replace function tidegate.on_jobs_insert() returns trigger language plpgsql security definer
set search_path = tidegate, pg_temp as $$
declare
  bad record;
  -- what every client can read
  most_time interval := '9223372036.854775 seconds';
  day_one timestamptz := '0001-01-02 00:00+00';
  doomsday timestamptz := '9999-12-30 00:00+00';
  deep jsonpath := 'strict $.**{64} ? (@.type() == "object" || @.type() == "array")';
  odd jsonpath := '$.* ? (@.type() != "string")';
  most int := coalesce(nullif(current_setting('tidegate.max_payload_bytes', true), '')::int, 1048576);
begin
  select into bad id,
         case when bytes > most then format('payload: %s bytes, at most %s are allowed; store the data elsewhere and pass a reference', bytes, most)
              when jsonb_typeof(payload) <> 'object' then 'payload: must be a JSON object, the arguments of the actor by name'
              when bytes > 128 and payload @? deep then 'payload: nested deeper than 64 levels'
              when octet_length(headers::text) > 8192 then 'headers: more than 8192 bytes'
              when jsonb_typeof(headers) <> 'object' or headers @? odd then 'headers: must be a JSON object of texts'
              when max_attempts not between 1 and 1000 then format('max_attempts: %s is not between 1 and 1000', max_attempts)
              when timeout <= '0' or timeout > most_time then 'timeout: must be longer than 0 and at most 292 years'
              when run_at not between day_one and doomsday then 'run_at: must lie in the years 1 to 9999'
              when expires_at not between day_one and doomsday then 'expires_at: must lie in the years 1 to 9999'
              when not is_name(job_key) then 'job_key: 1 to 200 characters, none of control, no blank at either end'
              when state not in ('ready', 'scheduled') or worker is not null or claim is not null or attempt <> 0 or lost <> 0 or started_at is not null
                then 'state: a new job is ready or scheduled and carries no worker, claim, attempt or start'
              else 'run_at: a job for later needs state scheduled' end as why
    from new_rows
   where bytes > most or jsonb_typeof(payload) <> 'object' or bytes > 128 and payload @? deep
      or headers is not null and (octet_length(headers::text) > 8192 or jsonb_typeof(headers) <> 'object' or headers @? odd) or max_attempts not between 1 and 1000
      or timeout <= '0' or timeout > most_time or run_at not between day_one and doomsday or expires_at not between day_one and doomsday or not is_name(job_key) or state not in ('ready', 'scheduled') or worker is not null or claim is not null
      or attempt <> 0 or lost <> 0 or started_at is not null or state = 'ready' and run_at > clock_timestamp()
   limit 1;
  if found then
    raise exception 'tidegate: %', bad.why using errcode = '22023';
  end if;
  with news as (
    insert into lane_mail(queue, group_key, limit_key, actor, ready, neg, run_at, id, bytes)
    select distinct on (queue, group_key, limit_key, actor) queue, group_key, limit_key, actor,
           count(*) over (partition by queue, group_key, limit_key, actor), neg, run_at, id, bytes
      from new_rows where state = 'ready' order by queue, group_key, limit_key, actor, neg, run_at, id
    returning queue, group_key, limit_key, actor),
  later as (
    insert into lane_mail(queue, ready, run_at, id)
    select distinct on (queue) queue, count(*) over (partition by queue), run_at, id
      from new_rows where state = 'scheduled' order by queue, run_at, id),
  names as (
    select queue, group_key, limit_key, actor from news
    union all
    select distinct queue, group_key, limit_key, actor from new_rows where state = 'scheduled')
  select into bad format('%s: %L is not a name: 1 to 200 characters, none of control, no blank at either end', field, name) as why
    from names, lateral (values ('queue', queue), ('actor', actor), ('limit_key', nullif(limit_key, '')), ('group_key', nullif(group_key, ''))) n(field, name)
   where not is_name(name) limit 1;
  if found then
    raise exception 'tidegate: %', bad.why using errcode = '22023';
  end if;
  perform notify_sleepers(array(select distinct queue from new_rows));
  return null;
end $$;

create or replace trigger jobs_insert after insert on tidegate.jobs referencing new table as new_rows
  for each statement execute function tidegate.on_jobs_insert();
