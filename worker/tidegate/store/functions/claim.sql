-- Locks: its worker row KEY SHARE, the queue row, jobs that it hands in SKIP LOCKED, keys SKIP LOCKED, jobs SKIP LOCKED, in this order. Waits for the
-- worker row and the queue row only.
-- Cost: n lanes with their successors read; n jobs, lanes and keys updated; one row of claims; plus what is handed in, plus the mail since the last
-- claim (bounded), plus one update for each lane found full, which is then out of the index. Whatever else waits costs nothing.
-- Returns the started jobs, place = which of them comes first in the queue's order, lost = workers that vanished while they ran it (the fifth
-- makes it dead, so what lost three should run alone), then at most one row with id null: next_at = when to ask again, wake = keys for wake() after commit, stale = handed-in jobs
-- that the token did not hold, locked = handed-in jobs that somebody had locked and that must be handed in again, cut = bytes of the job at which the claim ended because the budget has no room for it.
-- A first job above the budget goes alone, unless it is larger than `largest`; one larger than `refused_above` goes in any case, for its caller to
-- refuse, and so without its payload.
create or replace function tidegate.claim(worker uuid, claim bigint, queue text, slots int, actors text[], rooms int[] default null, budget bigint default null,
  fair boolean default null, done_jobs bigint[] default null, done_claims bigint[] default null, largest bigint default null, refused_above bigint default null)
returns table(id bigint, actor text, attempt int, max_attempts int, limit_key text, group_key text, priority int, run_at timestamptz, created_at timestamptz,
  expires_at timestamptz, timeout interval, lost int, bytes int, headers jsonb, payload jsonb, inline boolean, next_at timestamptz, wake text[], stale bigint[],
  locked bigint[], cut bigint, place int)
language plpgsql security definer
set search_path = tidegate, pg_temp set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off set tidegate.inside = on as $$
#variable_conflict use_column
declare
  p_worker alias for $1; p_claim alias for $2; p_queue alias for $3; free alias for $4; p_actors alias for $5; p_rooms alias for $6; p_budget alias for $7;
  p_largest alias for $11; p_refused alias for $12; p_cut bigint;
  idle boolean; wanted text; kept text; ranked boolean; narrow boolean; mail_low xid8; behind boolean; at timestamptz; mail boolean;
  round int := 0; more boolean; final boolean; p pick; fits boolean; h hold; marked boolean; instant timestamptz; tids tid[]; chosen record; most int;
  got bigint[]; started bigint[] := '{}'; again timestamptz; busy text[] := '{}'; p_wake text[]; p_stale bigint[]; p_locked bigint[]; round_size int; tried int := 0;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform require_read_committed();
  end if;
  -- the index by rank serves both orders but where both are kept
  loop
    select w.draining_at is not null or z.suspended or z.held_by_hand or cardinality(p_actors) > 0 is not true, o.wanted, z.kept_order,
           z.kept_order not in (o.wanted, 'both'), o.wanted = 'fair' or z.kept_order <> 'both', z.folded, least(z.gate_low, z.due_at)
      into idle, wanted, kept, narrow, ranked, mail_low, at
      from workers w, queues z, lateral (select case when coalesce(claim.fair, z.declared_order = 'fair') then 'fair' else 'priority' end wanted) o
     where w.id = p_worker and w.alive and z.name = p_queue for key share of w for no key update of z;
    exit when found;
    perform admit_worker(p_worker, p_queue);
  end loop;
  if cardinality(done_jobs) > 0 then
    select h.* into p_wake, p_stale, p_locked from hand_in(p_worker, p_queue, done_jobs, done_claims) h;
  end if;
  if idle then
    free := 0;
  end if;
  if free > 0 then
    if narrow then
      kept := widen_order(p_queue, wanted);
      ranked := wanted = 'fair' or kept <> 'both';
    end if;
    select exists (select from lane_mail where queue = p_queue and xid >= low_water(mail_low)), at <= clock_timestamp(), clock_timestamp() into mail, behind, at;
    if mail or behind then
      if catch_up(p_queue, free, at, mail, p_actors, p_rooms) then
        again := at;
      end if;
    end if;
  end if;

  while free > 0 and more is not false loop
    if ranked then
      p := next_lanes(p_queue, p_actors, p_rooms, free, p_budget, busy);
    else
      p := next_lanes_plain(p_queue, p_actors, p_rooms, free, p_budget, busy);
    end if;
    exit when p.ids is null;
    -- of the first pick alone: later ones leave out busy keys and used up actors, which stand before
    if p_claim % 16 = 0 and round = 0 and started = '{}' and ranked then
      perform raise_low_waters(p_queue, array(select u.tid from unnest(p.steps) u));
    end if;
    -- Locked and counted in one statement: the counts stand on the locked row, which READ COMMITTED reads again after locking it. The instant is
    -- read after the last lock and never before a key's last mark. Keys that are new, busy or full stay as they are.
    if p.keys is not null then
      with i as materialized (
        select coalesce(bool_or(max_starts is not null), false) marked, greatest(clock_timestamp(), max(last_mark)) instant,
               p.one_each and count(*) = cardinality(p.keys) and bool_and(full_ is not true) fits
          from (select max_starts, last_mark, running >= max_running or starts >= max_starts full_ from keys where key = any(p.keys) for no key update skip locked) k),
      u as (
        update keys m set running = m.running + 1, starts = m.starts + case when m.max_starts is null then 0 else 1 end,
               last_mark = case when m.max_starts is null then m.last_mark else i.instant end
          from i where i.fits and m.key = any(p.keys))
      select i.marked, i.instant, i.fits into marked, instant, fits from i;
    else
      marked := false; instant := clock_timestamp(); fits := p.one_each;
    end if;
    if not fits then
      round := round + 1;
      if round > 6 then
        again := at;
        exit;
      end if;
      tids := array(select u.tid from unnest(p.steps) u);
      h := settle_pick(p_queue, ranked, tids, p.keys, hold_keys(p.keys, row('{}', '{}', false, instant, busy, '{}', false)::hold), p_actors, p_rooms, free);
      instant := h.at;
      if h.busy <> '{}' then
        again := least(again, clock_timestamp() + interval '5 ms');
        busy := h.busy;
      end if;
      continue when h.again;
      select * into chosen from choose_jobs(p_queue, ranked and wanted = 'fair', tids, h, p_actors, free, started = '{}', p_rooms, p_budget, p_largest, p_refused);
      p.ids := chosen.ids; more := chosen.more; final := chosen.final; p_cut := chosen.cut;
    end if;
    most := 1048576 / greatest(cardinality(p.ids), 1);
    -- not `state = 'ready'`: a plan made while the table was empty would read all of jobs_ready for these few
    return query
      update jobs j set state = 'running', attempt = j.attempt + 1, worker = p_worker, claim = p_claim, started_at = instant
       where j.ctid = any(array(
         select r.ctid from jobs r where r.id = any(p.ids) and r.state is not distinct from 'ready' and r.run_at <= instant and (r.expires_at is null or r.expires_at > instant)
            for update skip locked))
      returning j.id, j.actor, j.attempt::int, j.max_attempts::int, j.limit_key, j.group_key, j.priority::int, j.run_at, j.created_at, j.expires_at, j.timeout,
                j.lost::int, j.bytes, j.headers, case when j.bytes <= least(most, p_refused) then j.payload end, j.bytes <= least(most, p_refused),
                null::timestamptz, null::text[], null::bigint[], null::bigint[], null::bigint, tried + array_position(p.ids, j.id);
    get diagnostics round_size = row_count;
    if fits and round_size = free then
      update lanes l set ready = l.ready - 1, running = l.running + 1, rank = (l.running + 1) / l.weight, neg = u.neg, run_at = u.run_at, id = u.id, bytes = u.bytes
        from unnest(p.steps) u where l.ctid = u.tid;
      if marked then
        insert into limit_starts select key, instant, 1 from keys where key = any(p.keys) and max_starts is not null;
      end if;
      started := started || p.ids;
      free := 0;
      exit;
    end if;
    if fits then
      -- some head was gone, locked or expired: count again what really started
      update keys set running = running - 1, starts = starts - case when max_starts is null then 0 else 1 end where key = any(p.keys);
      tids := array(select u.tid from unnest(p.steps) u);
      h := hold_keys(p.keys, row('{}', '{}', false, instant, busy, '{}', false)::hold);
      h.at := instant;
      round := round + 1; more := false; final := false;
    end if;
    got := array(select j.id from jobs j where j.id = any(p.ids) and j.state = 'running' and j.worker = p_worker and j.claim = p_claim);
    perform account_slow(p_queue, tids, h, p.ids, got);
    more := (look_after_gates(p_queue, h, free - cardinality(got)) or more) and not final or cardinality(got) < cardinality(p.ids);
    if more then
      p_rooms := array(select coalesce(u.room, free) - (select count(*)::int from jobs j where j.id = any(got) and j.actor = u.actor)
                         from unnest(p_actors, p_rooms) with ordinality u(actor, room, o) order by u.o);
      p_cut := null;
      p_budget := p_budget - (select coalesce(sum(j.bytes), 0) from jobs j where j.id = any(got));
    end if;
    started := started || got;
    tried := tried + cardinality(p.ids);
    free := free - cardinality(got);
    if got <> '{}' then
      round := 0;
    end if;
  end loop;

  if started <> '{}' then
    insert into claims values (p_worker, p_claim, started);
  end if;
  if free > 0 or p_wake is not null or p_stale is not null or p_locked is not null then
    id := null; wake := p_wake; stale := p_stale; locked := p_locked; cut := p_cut;
    next_at := least(again, next_instant(p_queue));
    return next;
  end if;
end $$;
