-- Locks: the queue, waits for a claim. Cost: one update; workers that sleep are told. `changes`: any of order, suspended, held_by_hand, default_priority,
-- default_max_attempts, default_timeout (seconds), keep_succeeded, keep_dead (seconds), owner; absent keeps, null is the built-in default.
create or replace function tidegate.set_queue(name text, changes jsonb) returns tidegate.queues
language plpgsql security definer set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_name text := set_queue.name;
  c jsonb := set_queue.changes;
  q queues;
  wrong text;
begin
  perform ensure_queue(p_name);
  select format('%s: %s', f, coalesce(rule, 'is not a part of a queue')) into wrong
    from jsonb_each(c) e(f, v)
    left join lateral (values
      ('order', 'must be priority or fair', v in ('"priority"', '"fair"')),
      ('suspended', 'must be true or false', jsonb_typeof(v) = 'boolean'),
      ('held_by_hand', 'must be true or false', jsonb_typeof(v) = 'boolean'),
      ('default_priority', 'must be a whole number from -32768 to 32767', whole_number(v, -32768, 32767)),
      ('default_max_attempts', 'must be a whole number from 1 to 1000', whole_number(v, 1, 1000)),
      ('default_timeout', 'must be longer than 0, in seconds', jsonb_typeof(v) = 'number' and v > '0'),
      ('keep_succeeded', 'must be 0 or longer, in seconds', jsonb_typeof(v) = 'number' and v >= '0'),
      ('keep_dead', 'must be 0 or longer, in seconds', jsonb_typeof(v) = 'number' and v >= '0'),
      ('owner', '', true)) r(part, rule, holds) on part = f
   where rule is null or v <> 'null' and not holds limit 1;
  if wrong is not null then
    raise exception 'tidegate: %', wrong using errcode = '22023';
  end if;
  select * into q from queues where name = p_name for no key update;
  if c ? 'order' then
    q.declared_order := coalesce(c->>'order', 'priority');
    -- while there are no lanes, only the declared order need be kept
    q.kept_order := case when exists (select from groups where queue = p_name) then q.kept_order else q.declared_order end;
  end if;
  if c ? 'suspended' then q.suspended := coalesce((c->>'suspended')::boolean, false); end if;
  if c ? 'held_by_hand' then q.held_by_hand := coalesce((c->>'held_by_hand')::boolean, false); end if;
  if c ? 'default_priority' then q.default_priority := (c->>'default_priority')::smallint; end if;
  if c ? 'default_max_attempts' then q.default_max_attempts := (c->>'default_max_attempts')::smallint; end if;
  if c ? 'default_timeout' then q.default_timeout := make_interval(secs => (c->>'default_timeout')::float8); end if;
  if c ? 'keep_succeeded' then q.keep_succeeded := make_interval(secs => (c->>'keep_succeeded')::float8); end if;
  if c ? 'keep_dead' then q.keep_dead := make_interval(secs => (c->>'keep_dead')::float8); end if;
  if c ? 'owner' then q.owner := nullif(c->'owner', 'null'); end if;
  update queues set declared_order = q.declared_order, kept_order = q.kept_order, suspended = q.suspended, held_by_hand = q.held_by_hand, default_priority = q.default_priority,
         default_max_attempts = q.default_max_attempts, default_timeout = q.default_timeout, keep_succeeded = q.keep_succeeded, keep_dead = q.keep_dead,
         owner = q.owner where name = p_name;
  perform notify_sleepers(array[p_name]);
  return q;
end $$;
