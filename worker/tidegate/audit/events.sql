-- The recorder, for test and demo databases only. The package's docstring explains why its order and its clock may be trusted.
-- Installing it again starts a new history. It refuses a database in which a job runs, because that job's start is not in the history.
drop schema if exists tidegate_audit cascade;
lock table tidegate.jobs, tidegate.keys, tidegate.workers in share row exclusive mode;
create schema tidegate_audit;

create table tidegate_audit.events(
  seq bigint generated always as identity primary key,
  at timestamptz not null default clock_timestamp(),
  xid xid8 not null default pg_current_xact_id(),
  kind text not null,
  job bigint,
  queue text collate "C",
  key text collate "C",
  group_key text collate "C",
  name text collate "C",
  item text collate "C",
  worker uuid,
  claim bigint,
  attempt int,
  attempt_left int,
  max_attempts int,
  run_at timestamptz,
  expires_at timestamptz,
  began timestamptz,
  started_at timestamptz,
  running int,
  max_running int,
  max_starts int,
  rate_window interval,
  worker_ready boolean,
  held boolean,
  silent interval,
  lease interval);

-- Written by actors that got to their end: the argument `item` of their job, or its job_key.
create table tidegate_audit.runs(
  seq bigint generated always as identity primary key,
  at timestamptz not null default clock_timestamp(),
  item text collate "C" not null,
  worker text collate "C" not null);

-- The running jobs that have a key, kept by row triggers in the transactions that start and end them. The table of jobs has no index for this count,
-- and one made for the recorder could change the plans of what is being judged.
create table tidegate_audit.running(job bigint not null, key text collate "C" not null) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
create index running_key on tidegate_audit.running(key, job);

create function tidegate_audit.on_insert() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into tidegate_audit.events(kind, job, queue, key, group_key, name, item, max_attempts, run_at, expires_at)
  select 'enqueued', id, queue, limit_key, group_key, job_key, coalesce(payload->>'item', job_key), max_attempts, run_at, expires_at from new_rows order by id;
  return null;
end $$;

create function tidegate_audit.keep_running() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if tg_op <> 'INSERT' and old.state = 'running' and old.limit_key <> '' then
    delete from tidegate_audit.running r where r.key = old.limit_key and r.job = old.id;
  end if;
  if tg_op <> 'DELETE' and new.state = 'running' and new.limit_key <> '' then
    insert into tidegate_audit.running values (new.id, new.limit_key);
  end if;
  return null;
end $$;

-- At the end of the transaction. Locks: the key, waiting; a claim that is right holds it already.
create function tidegate_audit.on_start() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  policy tidegate.keys;
  running_jobs int;
begin
  if new.limit_key <> '' then
    -- a statement of its own, so that the next ones have a snapshot from after the lock
    perform from tidegate.keys k where k.key = new.limit_key for no key update;
    select * into policy from tidegate.keys k where k.key = new.limit_key;
    select count(*) into running_jobs from tidegate_audit.running r where r.key = new.limit_key;
  end if;
  insert into tidegate_audit.events(kind, job, queue, key, group_key, name, worker, claim, attempt, max_attempts, run_at, expires_at, began, started_at,
                                    running, max_running, max_starts, rate_window, worker_ready, held)
  values ('started', new.id, new.queue, new.limit_key, new.group_key, new.job_key, new.worker, new.claim, new.attempt, new.max_attempts, new.run_at,
          new.expires_at, transaction_timestamp(), new.started_at, running_jobs, policy.max_running, policy.max_starts, policy.rate_window,
          coalesce((select w.alive and w.draining_at is null from tidegate.workers w where w.id = new.worker), false),
          coalesce((select q.suspended or q.held_by_hand from tidegate.queues q where q.name = new.queue), false));
  return null;
end $$;

-- At the end of the transaction. Locks: none.
create function tidegate_audit.on_end() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  what text;
  quiet interval;
  right_to_jobs interval;
  left_over int;
begin
  if tg_op = 'DELETE' then
    select h.state, h.attempt into what, left_over from tidegate.history h where h.id = old.id;
    if what is null and old.state = 'running' and (select q.keep_succeeded from tidegate.queues q where q.name = old.queue) = '0' then
      what := 'succeeded';   -- the queue keeps none, so its absence says nothing
    end if;
    what := coalesce(what, 'removed');
  else
    left_over := new.attempt;
    what := case when new.lost > old.lost then 'rescued' when new.attempt < old.attempt then 'released' else 'failed' end;
    if what = 'rescued' then
      select clock_timestamp() - w.seen_at, w.lease into quiet, right_to_jobs from tidegate.workers w where w.id = old.worker;
    end if;
  end if;
  insert into tidegate_audit.events(kind, job, queue, key, group_key, name, worker, claim, attempt, attempt_left, max_attempts, started_at, silent, lease)
  values (what, old.id, old.queue, old.limit_key, old.group_key, old.job_key, old.worker, old.claim, old.attempt, left_over, old.max_attempts,
          old.started_at, quiet, right_to_jobs);
  return null;
end $$;

-- At the end of the transaction, which has locked the key's row, or inserted it.
create function tidegate_audit.on_policy() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if tg_op = 'DELETE' then
    insert into tidegate_audit.events(kind, key) values ('policy', old.key);
  else
    insert into tidegate_audit.events(kind, key, max_running, max_starts, rate_window) values ('policy', new.key, new.max_running, new.max_starts, new.rate_window);
  end if;
  return null;
end $$;

create function tidegate_audit.on_worker() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into tidegate_audit.events(kind, worker, name, lease) values ('worker', new.id, new.name, new.lease);
  return null;
end $$;

create trigger tidegate_audit_insert after insert on tidegate.jobs referencing new table as new_rows
  for each statement execute function tidegate_audit.on_insert();

create trigger tidegate_audit_running_insert after insert on tidegate.jobs for each row
  when (new.state = 'running') execute function tidegate_audit.keep_running();
create trigger tidegate_audit_running_update after update on tidegate.jobs for each row
  when (old.state is distinct from new.state or old.limit_key is distinct from new.limit_key) execute function tidegate_audit.keep_running();
create trigger tidegate_audit_running_delete after delete on tidegate.jobs for each row
  when (old.state = 'running') execute function tidegate_audit.keep_running();

create constraint trigger tidegate_audit_start_insert after insert on tidegate.jobs deferrable initially deferred for each row
  when (new.state = 'running') execute function tidegate_audit.on_start();
create constraint trigger tidegate_audit_start after update on tidegate.jobs deferrable initially deferred for each row
  when (new.state = 'running' and (old.state <> 'running' or old.worker is distinct from new.worker or old.claim is distinct from new.claim))
  execute function tidegate_audit.on_start();
create constraint trigger tidegate_audit_end after update on tidegate.jobs deferrable initially deferred for each row
  when (old.state = 'running' and new.state <> 'running') execute function tidegate_audit.on_end();
create constraint trigger tidegate_audit_delete after delete on tidegate.jobs deferrable initially deferred for each row
  execute function tidegate_audit.on_end();

create constraint trigger tidegate_audit_policy_insert after insert on tidegate.keys deferrable initially deferred for each row
  when (new.max_running is not null or new.max_starts is not null) execute function tidegate_audit.on_policy();
create constraint trigger tidegate_audit_policy after update of max_running, max_starts, rate_window on tidegate.keys deferrable initially deferred for each row
  when ((old.max_running, old.max_starts, old.rate_window) is distinct from (new.max_running, new.max_starts, new.rate_window))
  execute function tidegate_audit.on_policy();
create constraint trigger tidegate_audit_policy_delete after delete on tidegate.keys deferrable initially deferred for each row
  when (old.max_running is not null or old.max_starts is not null) execute function tidegate_audit.on_policy();

create trigger tidegate_audit_worker after insert on tidegate.workers for each row execute function tidegate_audit.on_worker();

do $$
begin
  if exists (select from tidegate.jobs where state = 'running') then
    raise exception 'tidegate audit: a job is running; install the recorder before the first worker starts' using errcode = '55000';
  end if;
end $$;
insert into tidegate_audit.events(kind, job, queue, key, group_key, name, item, max_attempts, run_at, expires_at)
select 'enqueued', id, queue, limit_key, group_key, job_key, coalesce(payload->>'item', job_key), max_attempts, run_at, expires_at from tidegate.jobs order by id;
insert into tidegate_audit.events(kind, key, max_running, max_starts, rate_window)
select 'policy', key, max_running, max_starts, rate_window from tidegate.keys where max_running is not null or max_starts is not null order by key;
insert into tidegate_audit.events(kind, worker, name, lease) select 'worker', id, name, lease from tidegate.workers where alive;
