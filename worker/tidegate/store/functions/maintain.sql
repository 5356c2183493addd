-- Locks: a tried advisory lock for each transaction, so that one worker keeps house at a time; then those of the sweeps. Cost: batches of 10,000 at most,
-- each in a transaction of its own. Called by any worker every few seconds, never inside a transaction block.
create or replace procedure tidegate.maintain(worker uuid) language plpgsql as $$
declare
  v_name text;
  round int;
  at timestamptz;
  dropped boolean := false;
begin
  perform tidegate.trust_low_waters();
  for v_name in select q.name from tidegate.queues q order by q.name loop
    round := 0;
    loop
      commit;
      set transaction isolation level read committed;
      exit when not pg_try_advisory_xact_lock(7438, 0);
      at := clock_timestamp();
      exit when not exists (select from tidegate.lane_mail m where m.queue = v_name)
            and not exists (select from tidegate.jobs j where j.queue = v_name and j.state = 'scheduled' and j.run_at <= at)
            and not exists (select from tidegate.jobs j where j.queue = v_name and j.state <> 'running' and j.expires_at <= at);
      round := round + 1;
      exit when not tidegate.sweep_queue(v_name, 10000) or round >= 20;
    end loop;
  end loop;
  for v_name in select q.name from tidegate.queues q where q.swept_at < clock_timestamp() - interval '10 minutes' order by q.name loop
    loop
      commit;
      set transaction isolation level read committed;
      exit when not pg_try_advisory_xact_lock(7438, 0);
      dropped := true;
      exit when tidegate.sweep_lanes(v_name, 1000) < 1000;
    end loop;
  end loop;
  commit;
  set transaction isolation level read committed;
  if pg_try_advisory_xact_lock(7438, 0) then
    perform tidegate.sweep_keys(10000);
    if dropped then
      perform tidegate.sweep_idle_keys(10000);
    end if;
  end if;
  round := 0;
  loop
    commit;
    set transaction isolation level read committed;
    exit when not pg_try_advisory_xact_lock(7438, 0);
    round := round + 1;
    exit when tidegate.sweep_history(10000) < 10000 or round >= 20;
  end loop;
  commit;
end $$;
