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
  p_worker uuid := claim.worker; p_claim bigint := claim.claim; p_queue text := claim.queue; p_actors text[] := claim.actors;
  p_rooms int[] := coalesce(claim.rooms, array_fill(claim.slots, array[coalesce(cardinality(claim.actors), 0)]));
  p_budget bigint := claim.budget; p_largest bigint := claim.largest; p_refused bigint := claim.refused_above; p_cut bigint;
  draining boolean; declared text; kept text; idle boolean; mail_low xid8; gate_low timestamptz; due_at timestamptz;
  wanted text; ranked boolean; at timestamptz; mail boolean;
  free int := claim.slots; round int := 0; more boolean := true; final boolean;
  p pick; steps step[]; keyed text[]; ids bigint[]; several boolean; total bigint; last step;
  least_rank float8; least_neg int; least_run timestamptz; least_id bigint; one_each boolean; fits boolean;
  h hold; marked boolean; instant timestamptz; tids tid[]; chosen record; handed record; most int;
  got bigint[]; started bigint[] := '{}'; again timestamptz; busy text[] := '{}'; p_wake text[]; p_stale bigint[]; p_locked bigint[]; round_size int;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform require_read_committed();
  end if;
  loop
    select w.draining_at is not null, z.declared_order, z.kept_order, z.suspended or z.held_by_hand, z.folded, z.gate_low, z.due_at
      into draining, declared, kept, idle, mail_low, gate_low, due_at
      from workers w, queues z where w.id = p_worker and w.alive and z.name = p_queue for key share of w for no key update of z;
    exit when found;
    if not exists (select from workers w where w.id = p_worker and w.alive) then
      raise exception 'tidegate: worker % is not registered, or its lease ran out and its jobs were given to others', p_worker
        using errcode = 'P0002', hint = 'Call tidegate.register_worker() with a new id.';
    end if;
    perform ensure_queue(p_queue);
  end loop;
  if cardinality(done_jobs) > 0 then
    select f.* into handed from finish_jobs(p_worker, done_jobs, done_claims, 'succeeded', null, null) f;
    if handed.finished is null or cardinality(handed.finished) < cardinality(done_jobs) then
      -- a cancel in an open transaction holds a job, say: nobody waits for a job while it holds a queue
      select array_agg(j.id) into p_locked from unnest(done_jobs, done_claims) u(job, token)
        join jobs j on j.id = u.job and j.worker = p_worker and j.claim = u.token and j.state = 'running' and u.job <> all(coalesce(handed.finished, '{}'));
      p_stale := without(done_jobs, handed.finished || p_locked);
    end if;
    if handed.finished is not null then
      p_wake := hand_in(p_queue, handed.gone);
    end if;
  end if;
  if idle or draining or coalesce(cardinality(p_actors), 0) = 0 then
    free := 0;
  end if;
  if free > 0 then
    wanted := case when coalesce(fair, declared = 'fair') then 'fair' else 'priority' end;
    if kept <> wanted and kept <> 'both' then
      kept := widen_order(p_queue, wanted);
    end if;
    -- the index by rank serves both orders but where both are kept
    ranked := wanted = 'fair' or kept <> 'both';
    at := clock_timestamp();
    mail := exists (select from lane_mail where queue = p_queue and xid >= low_water(mail_low));
    if mail or due_at <= at or gate_low <= at then
      if catch_up(p_queue, free, at, mail) then
        again := at;
      end if;
    end if;
  end if;

  while free > 0 and more loop
    round := round + 1;
    if round > 6 then
      again := at;
      exit;
    end if;
    if ranked then
      select array_agg(l.limit_key) filter (where l.limit_key <> ''), array_agg(l.id),
             array_agg(row(l.tid, l.neg, l.rank, l.run_at, j.neg, j.run_at, j.id, j.bytes)::step),
             bool_or(l.many and l.step > 0 or l.gated), sum(l.bytes), min(l.rank + l.step), min(j.neg), min(j.run_at), min(j.id)
        into keyed, ids, steps, several, total, least_rank, least_neg, least_run, least_id
        from (select l.*
                from low_waters w
               cross join lateral (
                 select l.ctid tid, l.lane, l.group_key, l.limit_key, l.actor, l.neg, l.rank, l.run_at, l.id, l.bytes, l.step, l.many, l.gated from lanes l
                  where l.queue = p_queue and l.actor = w.actor and l.open and l.id is not null and l.limit_key <> all(busy)
                    and (l.neg, l.rank, l.run_at, l.id) >= (w.neg, w.rank, w.run_at, w.id)
                  order by l.neg, l.rank, l.run_at, l.id limit least(free, p_rooms[array_position(p_actors, w.actor)])) l
               where w.queue = p_queue and w.actor = any(p_actors)
               order by l.neg, l.rank, l.run_at, l.id limit free) l
        left join lateral (
          select -j.priority::int neg, j.run_at, j.id, j.bytes from jobs j
           where lane_of(j.queue, j.group_key, j.limit_key, j.actor) = l.lane and j.state = 'ready'
             and j.queue = p_queue and j.group_key = l.group_key and j.limit_key = l.limit_key and j.actor = l.actor
             and (-j.priority::int, j.run_at, j.id) > (l.neg, l.run_at, l.id) order by -j.priority::int, j.run_at, j.id limit 1) j on true;
      -- one job of each lane is exactly the answer where no job after a head can stand before the last head
      last := steps[free];
      one_each := cardinality(ids) = free and not several and coalesce(total <= p_budget, true)
        and coalesce(least_neg >= last.head_neg and (least_rank > last.head_rank
                     or least_rank >= last.head_rank and (least_run > last.head_run or least_run >= last.head_run and least_id > ids[free])), true);
    else
      p := next_lanes_plain(p_queue, p_actors, p_rooms, free, p_budget, busy);
      keyed := p.keys; ids := p.ids; steps := p.steps; one_each := p.one_each;
    end if;
    exit when ids is null;
    -- of the first pick alone: later ones leave out busy keys and used up actors, which stand before
    if started = '{}' and round = 1 and ranked and p_claim % 16 = 0 then
      perform raise_low_waters(p_queue, array(select u.tid from unnest(steps) u));
    end if;
    -- Locked and counted in one statement: the counts stand on the locked row, which READ COMMITTED reads again after locking it. The instant is
    -- read after the last lock and never before a key's last mark. Keys that are new, busy or full stay as they are.
    if keyed is not null then
      with i as materialized (
        select coalesce(bool_or(max_starts is not null), false) marked, greatest(clock_timestamp(), max(last_mark)) instant,
               one_each and count(*) = cardinality(keyed) and bool_and(full_ is not true) fits
          from (select max_starts, last_mark, running >= max_running or starts >= max_starts full_ from keys where key = any(keyed) for no key update skip locked) k),
      u as (
        update keys m set running = m.running + 1, starts = m.starts + case when m.max_starts is null then 0 else 1 end,
               last_mark = case when m.max_starts is null then m.last_mark else i.instant end
          from i where i.fits and m.key = any(keyed))
      select i.marked, i.instant, i.fits into marked, instant, fits from i;
    else
      marked := false; instant := clock_timestamp(); fits := one_each;
    end if;
    more := false; final := false; p_cut := null;
    if not fits then
      tids := array(select u.tid from unnest(steps) u);
      h := admit_keys(p_queue, tids, keyed, hold_keys(keyed, row('{}', '{}', false, instant, busy, '{}', false)::hold), free);
      instant := h.at;
      more := h.closed or h.busy <> busy;
      if h.busy <> '{}' then
        again := least(again, clock_timestamp() + interval '5 ms');
        busy := h.busy;
      end if;
      -- once a lane is out, the ones picked are not the first any more: another's head may stand before a second job of theirs
      continue when more;
      if settle_heads(p_queue, tids) then
        perform look_after_gates(p_queue, h, free);
        more := true;
        continue;
      end if;
      if open_better(p_queue, ranked, tids, h, p_actors, p_rooms, free) then
        more := true;
        continue;
      end if;
      select * into chosen from choose_jobs(p_queue, ranked and wanted = 'fair', tids, h, p_actors, free, started = '{}', p_rooms, p_budget, p_largest, p_refused);
      ids := chosen.ids; more := chosen.more; final := chosen.final; p_cut := chosen.cut;
    end if;
    most := 1048576 / greatest(cardinality(ids), 1);
    -- not `state = 'ready'`: a plan made while the table was empty would read all of jobs_ready for these few
    return query
      update jobs j set state = 'running', attempt = j.attempt + 1, worker = p_worker, claim = p_claim, started_at = instant
       where j.ctid = any(array(
         select r.ctid from jobs r where r.id = any(ids) and r.state is not distinct from 'ready' and r.run_at <= instant and (r.expires_at is null or r.expires_at > instant)
            for update skip locked))
      returning j.id, j.actor, j.attempt::int, j.max_attempts::int, j.limit_key, j.group_key, j.priority::int, j.run_at, j.created_at, j.expires_at, j.timeout,
                j.lost::int, j.bytes, j.headers, case when j.bytes <= least(most, p_refused) then j.payload end, j.bytes <= least(most, p_refused),
                null::timestamptz, null::text[], null::bigint[], null::bigint[], null::bigint, cardinality(started) + array_position(ids, j.id);
    get diagnostics round_size = row_count;
    if fits and round_size = cardinality(steps) then
      update lanes l set ready = l.ready - 1, running = l.running + 1, rank = (l.running + 1) * l.step, neg = u.neg, run_at = u.run_at, id = u.id, bytes = u.bytes
        from unnest(steps) u where l.ctid = u.tid;
      if marked then
        insert into limit_starts select key, instant, 1 from keys where key = any(keyed) and max_starts is not null;
      end if;
      got := ids;
    else
      if fits then
        -- some head was gone, locked or expired: count again what really started
        update keys set running = running - 1, starts = starts - case when max_starts is null then 0 else 1 end where key = any(keyed);
        tids := array(select u.tid from unnest(steps) u);
        h := hold_keys(keyed, row('{}', '{}', false, instant, busy, '{}', false)::hold);
      end if;
      got := array(select j.id from jobs j where j.id = any(ids) and j.state = 'running' and j.worker = p_worker and j.claim = p_claim);
      perform account_slow(p_queue, tids, h, ids, got);
      more := (look_after_gates(p_queue, h, free - cardinality(got)) or more) and not final or cardinality(got) < cardinality(ids);
      if more then
        p_rooms := array(select u.room - (select count(*)::int from jobs j where j.id = any(got) and j.actor = u.actor)
                           from unnest(p_actors, p_rooms) with ordinality u(actor, room, o) order by u.o);
        p_budget := p_budget - (select coalesce(sum(j.bytes), 0) from jobs j where j.id = any(got));
      end if;
    end if;
    started := started || got;
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
