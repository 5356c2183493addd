-- Locks: catalog rows of what is granted. Gives a role one part of the work; nobody else but the owner may call anything.
-- producer: enqueue jobs, by function, INSERT or COPY, and read nothing. observer: read policies, queues, workers and counts, but no job. operator: what an observer
-- may, jobs with their payloads, and change limits, queues and the bound of payloads, cancel, retry and drain: for people, and for the Kubernetes operator once the schema is there. worker: what a worker process needs, payloads included.
create or replace function tidegate.grant_access(role name, part text) returns void language plpgsql
set search_path = tidegate, pg_temp as $$
declare
  calls text[];
  p_role name := grant_access.role;
  p_part text := grant_access.part;
begin
  if p_part not in ('producer', 'observer', 'operator', 'worker') then
    raise exception 'tidegate: part: % is none of producer, observer, operator, worker', quote_literal(p_part) using errcode = '22023';
  end if;
  execute format('grant usage on schema tidegate to %I', p_role);
  if p_part in ('producer', 'worker') then
    -- by column: worker, claim and state stay ours
    execute format('grant insert (queue, actor, limit_key, group_key, priority, run_at, state, expires_at, max_attempts, timeout, job_key, headers, payload) on jobs to %I', p_role);
  end if;
  if p_part <> 'producer' then
    execute format('grant select on limits, limit_starts, queues, settings, workers, limit_status, queue_status, queue_demand, schema_migrations, schema_functions to %I', p_role);
  end if;
  if p_part in ('operator', 'worker') then
    execute format('grant select on jobs, history, job_status, lane_mail to %I', p_role);
  end if;
  if p_part = 'operator' then
    execute format('grant select on keys, claims to %I', p_role);
  end if;
  calls := case p_part
    when 'producer' then '{enqueue,enqueue_many}'
    when 'operator' then '{due_jobs,enqueue,enqueue_many,set_limit,change_limit,clear_limit,set_queue,set_max_payload_bytes,cancel,retry,drain_worker,take_office,own_limits,own_queues,watch_queues,drain_crew,maintain,trust_low_waters,sweep_queue,sweep_keys,sweep_lanes,sweep_idle_keys,sweep_history}'
    when 'worker' then '{due_jobs,enqueue,enqueue_many,register_worker,claim,payload_of,ack,nack,release,wake,heartbeat,rescue,leave,sleep_on,probe,maintain,trust_low_waters,sweep_queue,sweep_keys,sweep_lanes,sweep_idle_keys,sweep_history}'
    else '{due_jobs}' end;
  for calls in select array[p.oid::regprocedure::text] from pg_proc p where p.pronamespace = 'tidegate'::regnamespace and p.proname = any(calls) loop
    execute format('grant execute on routine %s to %I', calls[1], p_role);
  end loop;
end $$;
