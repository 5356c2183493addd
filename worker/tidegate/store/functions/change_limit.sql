-- Locks: the key, waits for it. Cost: one update, one mail row for each queue that waits; a new weight one mail row a queue. Rewrites no job; counts are
-- untouched, since running is kept for keys without a policy as well.
-- `changes`: any of max_running, max_starts, window_ms, weight, owner; absent keeps, null removes; removing max_starts removes the window with it.
create or replace function tidegate.change_limit(key text, changes jsonb)
returns setof tidegate.limits
language plpgsql security definer set search_path = tidegate, pg_temp set enable_seqscan = off as $$
#variable_conflict use_column
declare
  p_key text := change_limit.key;
  c jsonb := change_limit.changes;
  old keys;
  new keys;
  wrong text;
begin
  if is_name(p_key) is not true then
    raise exception 'tidegate: key: % is not a name: 1 to 200 characters, none of control, no blank at either end', quote_nullable(p_key) using errcode = '22023';
  end if;
  select format('%s: %s', case f when 'window_ms' then 'window' else f end, case when f not in ('max_running', 'max_starts', 'window_ms', 'weight', 'owner') then 'is not a part of a limit'
                                  when f = 'window_ms' then 'the window must lie between 100 milliseconds and 24 hours'
                                  when f = 'weight' then 'must be a whole number from 1 to 1000'
                                  else 'must be a whole number from 0 to 1000000' end) into wrong
    from jsonb_each(c) e(f, v)
   where case when f not in ('max_running', 'max_starts', 'window_ms', 'weight', 'owner') then true
              when f = 'owner' or v = 'null' then false
              when f = 'window_ms' then jsonb_typeof(v) <> 'number' or v < '100' or v > '86400000'
              when f = 'weight' then not whole_number(v, 1, 1000)
              else not whole_number(v, 0, 1000000) end
   limit 1;
  if wrong is not null then
    raise exception 'tidegate: %', wrong using errcode = '22023';
  end if;
  perform pg_advisory_xact_lock(7438, hashtext(p_key));      -- a claim only tries this lock, so it never waits for the insert
  loop
    insert into keys(key) values (p_key) on conflict do nothing;
    select * into old from keys where key = p_key for no key update;
    -- maintenance may drop an idle key between the two
    exit when found;
  end loop;
  new := old;
  if c ? 'max_running' then new.max_running := (c->>'max_running')::numeric; end if;
  if c ? 'window_ms' then new.rate_window := make_interval(secs => (c->>'window_ms')::float8 / 1000); end if;
  if c ? 'max_starts' then
    new.max_starts := (c->>'max_starts')::numeric;
    if new.max_starts is null and c->>'window_ms' is null then
      new.rate_window := null;
    end if;
  end if;
  if c ? 'weight' then new.weight := (c->>'weight')::numeric; end if;
  if c ? 'owner' then new.owner := nullif(c->'owner', 'null'); end if;
  if new.max_starts is not null and new.rate_window is null and c ? 'window_ms' then
    raise exception 'tidegate: window: cannot be removed while key % has max_starts', p_key using errcode = '22023', hint = 'Remove max_starts, the window goes with it.';
  elsif new.max_starts is not null and new.rate_window is null then
    raise exception 'tidegate: max_starts: needs a window, and key % has none', p_key using errcode = '22023', hint = 'Give the window in the same call.';
  elsif new.max_starts is null and new.rate_window is not null then
    raise exception 'tidegate: window: needs max_starts, and key % has none', p_key using errcode = '22023', hint = 'Give max_starts in the same call.';
  end if;
  if new.max_starts is null and old.max_starts is not null then
    delete from limit_starts where key = p_key;
    new.starts := 0;
  end if;
  update keys set max_running = new.max_running, max_starts = new.max_starts, rate_window = new.rate_window, weight = new.weight, starts = new.starts,
                  owner = new.owner, updated_at = clock_timestamp() where key = p_key;
  perform reopen(array[p_key]);
  if new.weight is distinct from old.weight then
    insert into lane_mail(queue, group_key, reopen) select name, p_key, true from queues;
  end if;
  return query select k.key, k.max_running, k.max_starts, k.rate_window, k.weight, k.owner, k.updated_at from keys k where k.key = p_key;
end $$;
