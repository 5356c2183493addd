-- Locks: none; producers never touch lanes, keys or queues. Cost: two statements over the new rows, one mail row for each lane, however many rows. A single
-- job, which is what most statements bring, is neither grouped nor sorted. Of many, the places of each lane are counted by hash, and only what differs in
-- priority or `run_at` is sorted; the bytes of a lane's first job may be told too high then, which makes a claim look closer and nothing else.
-- SECURITY DEFINER: whoever may insert a job may not write mail, and cannot forge a lane.
create or replace function tidegate.on_jobs_insert() returns trigger language plpgsql security definer
set search_path = tidegate, pg_temp as $$
declare
  many bigint;
  good boolean;
  named boolean;
  heard boolean;
  why text;
begin
  -- what is said in this way is prepared once; the reason is looked for where something is wrong. Instants and spans are bounded by what every client can read
  select count(*), exists (select from sleepers), bool_and(coalesce(
           jsonb_typeof(payload) = 'object'
           and (bytes <= 128 or not payload @? 'strict $.**{64} ? (@.type() == "object" || @.type() == "array")')
           and (bytes <= 1024 or bytes <= (select max_payload_bytes from settings))
           and (headers is null or octet_length(headers::text) <= 8192 and jsonb_typeof(headers) = 'object' and not headers @? '$.* ? (@.type() != "string")')
           and (job_key is null or is_name(job_key)) and max_attempts between 1 and 1000
           and (timeout is null or timeout > '0' and timeout <= '9223372036.854775 seconds')
           and (expires_at is null or expires_at between '0001-01-02 00:00+00' and '9999-12-30 00:00+00')
           and run_at between '0001-01-02 00:00+00' and '9999-12-30 00:00+00' and (state = 'ready' and run_at <= clock_timestamp() or state = 'scheduled')
           and worker is null and claim is null and attempt = 0 and lost = 0 and started_at is null, false))
    into many, heard, good from new_rows;
  if many = 1 then
    insert into lane_mail(queue, group_key, limit_key, actor, ready, neg, run_at, id, bytes)
    select queue, case when state = 'ready' then group_key end, case when state = 'ready' then limit_key end, case when state = 'ready' then actor end,
           1, -priority::int, run_at, id, bytes
      from new_rows where is_name(queue) and is_name(actor) and (limit_key = '' or is_name(limit_key)) and (group_key = '' or is_name(group_key));
    named := found;
  elsif many > 1 then
    with g as materialized (
      select queue, group_key, limit_key, actor, state, -priority::int neg, run_at, count(*) n, min(id) id, max(bytes) bytes from new_rows group by 1, 2, 3, 4, 5, 6, 7),
    news as (
      insert into lane_mail(queue, group_key, limit_key, actor, ready, neg, run_at, id, bytes)
      select distinct on (queue, group_key, limit_key, actor) queue, group_key, limit_key, actor,
             sum(n) over (partition by queue, group_key, limit_key, actor), neg, run_at, id, bytes
        from g where state = 'ready' order by queue, group_key, limit_key, actor, neg, run_at, id
      returning queue, group_key, limit_key, actor),
    later as (
      -- the least run_at with the least id is a bound, which is all that a low water needs to be
      insert into lane_mail(queue, ready, run_at, id) select queue, sum(n), min(run_at), min(id) from g where state = 'scheduled' group by queue)
    select bool_and(is_name(queue) and is_name(actor) and (limit_key = '' or is_name(limit_key)) and (group_key = '' or is_name(group_key))) into named
      from (select * from news union all select queue, group_key, limit_key, actor from g where state = 'scheduled' group by 1, 2, 3, 4) lanes;
  end if;
  if not (good and named) then
    select reason into why from (
      select case when bytes > most then format('payload: %s bytes, at most %s are allowed; store the data elsewhere and pass a reference', bytes, most)
                  when jsonb_typeof(payload) <> 'object' then 'payload: must be a JSON object, the arguments of the actor by name'
                  when payload @? 'strict $.**{64} ? (@.type() == "object" || @.type() == "array")' then 'payload: nested deeper than 64 levels'
                  when octet_length(headers::text) > 8192 then 'headers: more than 8192 bytes'
                  when jsonb_typeof(headers) <> 'object' or headers @? '$.* ? (@.type() != "string")' then 'headers: must be a JSON object of texts'
                  when max_attempts not between 1 and 1000 then format('max_attempts: %s is not between 1 and 1000', max_attempts)
                  when timeout <= '0' or timeout > '9223372036.854775 seconds' then 'timeout: must be longer than 0 and at most 292 years'
                  when run_at not between '0001-01-02 00:00+00' and '9999-12-30 00:00+00' then 'run_at: must lie in the years 1 to 9999'
                  when expires_at not between '0001-01-02 00:00+00' and '9999-12-30 00:00+00' then 'expires_at: must lie in the years 1 to 9999'
                  when state not in ('ready', 'scheduled') or worker is not null or claim is not null or attempt <> 0 or lost <> 0 or started_at is not null
                    then 'state: a new job is ready or scheduled and carries no worker, claim, attempt or start'
                  when state = 'ready' and run_at > clock_timestamp() then 'run_at: a job for later needs state scheduled'
                  else (select format('%s: %L is not a name: 1 to 200 characters, none of control, no blank at either end', field, name)
                          from (values ('job_key', job_key), ('queue', queue), ('actor', actor), ('limit_key', nullif(limit_key, '')), ('group_key', nullif(group_key, '')))
                               f(field, name) where not is_name(name) limit 1) end as reason
        from new_rows, (select (select max_payload_bytes from settings) most) allowed) judged where reason is not null limit 1;
    raise exception 'tidegate: %', why using errcode = '22023';
  end if;
  if heard then
    perform notify_sleepers(array(select distinct queue from new_rows));
  end if;
  return null;
end $$;

create or replace trigger jobs_insert after insert on tidegate.jobs referencing new table as new_rows
  for each statement execute function tidegate.on_jobs_insert();
