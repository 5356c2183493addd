-- What every permutation of the isolation tests starts from, what its steps say, and how it ends. Installed beside the audit's recorder.
--
-- Queues a, b and c in the default order. Workers one and two, whose leases are over; three, who rescues, and finishes what is left.
--   key k: 2 may run. k1 runs for one; k2 waits in a, k3 in b: one place for two.
--   key f: 1 may run. f1 runs for two; f2 waits in a, f3 in b, and both queues have closed their gates.
--   key s: 1 may start in an hour, none has. s1 waits in a, s2 in b.
--   no key: o1 waits in a; d1 in a was scheduled and is due; z1 in a is scheduled for later.
--   queue c is empty.
-- k2, k3, s1, s2, o1 and d1 are news: no claim has seen them.
create schema scene;
create schema scenery;

create table scene.permutations(number int generated always as identity primary key, first_event bigint not null);
create table scene.left_over(number int not null, id bigint not null, running boolean not null, worker uuid, claim bigint);
create table scene.drift(number int not null, kind text not null, name text not null, kept bigint not null, truth bigint not null);
-- jobs by the names that the steps use; their ids are the same in every permutation
create table scene.jobs(item text primary key, id bigint not null);
-- the keys that an outcome found busy: its caller wakes them once it has committed
create table scene.busy(key text not null);
create sequence scene.claims start 100;

create function scene.worker(number int) returns uuid language sql immutable as $$
  select ('00000000-0000-0000-0000-00000000000' || number)::uuid
$$;

create function scene.job(item text) returns bigint language sql stable as $$
  select id from scene.jobs where item = $1
$$;

create function scene.put(queue text, key text, item text, delay interval default null, priority int default 0) returns text language sql as $$
  insert into scene.jobs select $3, id from tidegate.enqueue($1, 'x', jsonb_build_object('item', $3), $2, delay => $4, priority => $5)
  returning 'put'
$$;

-- All that a permutation may change, with the columns that can be written.
create function scene.tables() returns table(name text, columns text) language sql stable as $$
  select format('%I.%I', c.relnamespace::regnamespace, c.relname), string_agg(quote_ident(a.attname), ', ' order by a.attnum)
    from pg_class c join pg_attribute a on a.attrelid = c.oid
   where c.relkind = 'r' and (c.relnamespace = 'tidegate'::regnamespace and c.relname not like 'schema\_%'
                              or c.oid in ('tidegate_audit.running'::regclass, 'scene.jobs'::regclass, 'scene.busy'::regclass))
     and a.attnum > 0 and not a.attisdropped and a.attgenerated = '' group by c.oid
$$;

create procedure scene.set_up() language plpgsql as $$
declare
  t record;
begin
  perform tidegate.register_worker(scene.worker(n), 'worker ' || n, '{a,b,c}', '{x}', 8, null, '1 hour', 'test') from generate_series(1, 3) n;
  perform tidegate.change_limit('k', '{"max_running": 2}');
  perform tidegate.change_limit('f', '{"max_running": 1}');
  perform tidegate.change_limit('s', '{"max_starts": 1, "window_ms": 3600000}');
  perform scene.put('a', 'f', 'f1', priority => 2);
  perform scene.put('a', 'f', 'f2', priority => 1);
  perform scene.put('b', 'f', 'f3', priority => 1);
  perform scene.put('a', 'k', 'k1');
  commit;
  perform tidegate.claim(scene.worker(2), 1, 'a', 1, '{x}');
  commit;
  perform tidegate.claim(scene.worker(1), 1, 'a', 1, '{x}');
  perform tidegate.claim(scene.worker(1), 2, 'b', 1, '{x}');
  commit;
  perform scene.put('a', 'k', 'k2');
  perform scene.put('b', 'k', 'k3');
  perform scene.put('a', 's', 's1');
  perform scene.put('b', 's', 's2');
  perform scene.put('a', '', 'o1');
  perform scene.put('a', '', 'd1', delay => '1 microsecond');
  perform scene.put('a', '', 'z1', delay => '1 hour');
  -- one and two are long silent; three is heard, has been for a lease, and its lease is shorter than the server has run
  update tidegate.workers set seen_at = seen_at - interval '2 hours' where id <> scene.worker(3);
  update tidegate.workers set contact_since = contact_since - interval '1 day', seen_at = seen_at + interval '1 day', lease = '1 millisecond'
   where id = scene.worker(3);
  commit;
  for t in select * from scene.tables() loop
    execute format('create table scenery.%I as select %s from %s', t.name, t.columns, t.name);
  end loop;
  create table scenery.events as select * from tidegate_audit.events;
  alter table scenery.events drop column seq;
end $$;

-- For a session whose triggers are off. By rows, which is quicker than TRUNCATE for so few. What was recorded of the scene begins each history.
create procedure scene.put_back() language plpgsql as $$
declare
  t record;
begin
  for t in select * from scene.tables() loop
    execute format('delete from %s', t.name);
    execute format('insert into %s(%s) overriding system value select * from scenery.%I', t.name, t.columns, t.name);
  end loop;
  perform setval('tidegate.jobs_id_seq', (select max(id) from scene.jobs));
  insert into scene.permutations(first_event) select coalesce(max(seq), 0) + 1 from tidegate_audit.events;
  execute (select format('insert into tidegate_audit.events(%s) select * from scenery.events', string_agg(attname, ', ' order by attnum))
             from pg_attribute where attrelid = 'scenery.events'::regclass and attnum > 0 and not attisdropped);
end $$;

-- A claim of 8 by a worker, told in one text: what started, then `again` when more is to be had at once, `stale` and `wake`.
create function scene.claim(me int, queue text, done text default null, fair boolean default null) returns text language plpgsql as $$
declare
  said text;
begin
  select coalesce(string_agg(c.payload->>'item', ' ' order by c.payload->>'item') filter (where c.id is not null), 'nothing') || coalesce(max(
           case when c.next_at < clock_timestamp() + interval '1 second' then ', again' else '' end
           || case when c.stale is not null then ', stale' else '' end || case when c.locked is not null then ', locked' else '' end || coalesce(', wake ' || array_to_string(c.wake, ' '), '')) filter (where c.id is null), '')
    into said
    from tidegate.claim(scene.worker(me), 10, claim.queue, 8, '{x}', fair => claim.fair, done_jobs => case when done is not null then array[scene.job(done)] end,
           done_claims => case when done is not null then '{1}'::bigint[] end) c;
  insert into scene.busy select unnest(string_to_array(substring(said from ', wake (.*)'), ' '));
  return said;
end $$;

-- A job of f comes to queue c and is claimed: where f is full, this closes the gate of c.
create function scene.close_gate(me int) returns text language plpgsql as $$
begin
  perform scene.put('c', 'f', 'c' || me);
  return scene.claim(me, 'c');
end $$;

-- An outcome of what a worker ran from the start, told in one text.
create function scene.say(stale bigint[], wake text[]) returns text language sql as $$
  insert into scene.busy select unnest(wake);
  select case when stale is null then 'done' else 'stale' end || coalesce(', wake ' || array_to_string(wake, ' '), '')
$$;

create function scene.ack(me int, item text) returns text language sql as $$
  select scene.say(stale, wake) from tidegate.ack(scene.worker(me), array[scene.job(item)], '{1}')
$$;

create function scene.nack(me int, item text) returns text language sql as $$
  select scene.say(stale, wake) from tidegate.nack(scene.worker(me), array[scene.job(item)], '{1}', '{broke}', '{trace}')
$$;

create function scene.release(me int, item text) returns text language sql as $$
  select scene.say(stale, wake) from tidegate.release(scene.worker(me), array[scene.job(item)], '{1}')
$$;

create function scene.rescue() returns text language plpgsql as $$
declare
  said text;
begin
  with r as (select * from tidegate.rescue(scene.worker(3))),
  b as (insert into scene.busy select unnest(r.wake) from r)
  select string_agg(w.name || ': ' || r.jobs || coalesce(', wake ' || array_to_string(r.wake, ' '), ''), '; ' order by w.name) into said
    from r join tidegate.workers w on w.id = r.worker;
  return coalesce(said, 'nobody');
end $$;

create function scene.heartbeat(me int, jobs bigint[], claims bigint[], next_claim bigint) returns text language sql as $$
  with h as (select * from tidegate.heartbeat(scene.worker(me), jobs, claims, next_claim, true)),
  b as (insert into scene.busy select unnest(h.wake) from h)
  select case when not alive then 'dead' when draining then 'draining' else 'alive' end || coalesce(', cancelled ' || cardinality(cancelled), '')
         || coalesce(', missing ' || cardinality(missing), '') || case when returned > 0 then ', returned ' || returned else '' end
         || coalesce(', wake ' || array_to_string(wake, ' '), '')
    from h
$$;

create function scene.leave(me int) returns text language sql as $$
  with l as (select * from tidegate.leave(scene.worker(me))),
  b as (insert into scene.busy select unnest(l.wake) from l)
  select returned || coalesce(', wake ' || array_to_string(wake, ' '), '') from l
$$;

create function scene.limited(key text, part text, value int) returns text language sql as $$
  select concat_ws(' ', max_running, max_starts) from tidegate.change_limit(key, jsonb_build_object(part, value))
$$;

create function scene.suspend(suspended boolean) returns text language sql as $$
  select case when (tidegate.set_queue('a', jsonb_build_object('suspended', suspended))).suspended then 'suspended' else 'resumed' end
$$;

create function scene.wake() returns text language sql as $$
  select coalesce(string_agg(key, ' ' order by key), 'woken') from unnest(tidegate.wake('{f,k,s}')) key
$$;

-- What is committed once both are: who runs what, what waits, what is over. Its counts are compared with the truth.
create function scene.stand() returns text language sql as $$
  insert into scene.drift select (select max(number) from scene.permutations), kind, name, kept, truth from tidegate.recount();
  select string_agg(place || ' ' || items, '; ' order by place)
    from (select place, string_agg(item, ' ' order by item) items
            from (select case when j.state = 'running' then w.name else coalesce(j.state, h.state) end place, n.item
                    from scene.jobs n left join tidegate.jobs j using (id) left join tidegate.history h on h.id = n.id and j.id is null
                    left join tidegate.workers w on w.id = j.worker) z group by place) y
$$;

-- Claims for worker three from all queues until no claim asks for another one; returns what started.
create function scene.claim_all(rounds int default 20) returns bigint[] language plpgsql as $$
declare
  queue text;
  c record;
  more boolean;
  started bigint[] := '{}';
  before int;
begin
  for round in 1..rounds loop
    more := false;
    before := cardinality(started);
    foreach queue in array '{a,b,c}'::text[] loop
      for c in select * from tidegate.claim(scene.worker(3), nextval('scene.claims'), queue, 8, '{x}') loop
        if c.id is not null then
          started := started || c.id;
        elsif c.next_at < clock_timestamp() + interval '1 second' then
          more := true;
        end if;
      end loop;
    end loop;
    exit when not more and cardinality(started) = before;
    perform pg_sleep(0.006) where more;
  end loop;
  return started;
end $$;

-- The callers wake what they found busy, then worker three claims: whoever could start has started now. Returns what did, and what was left behind.
create function scene.settle() returns text language plpgsql as $$
declare
  keys text[] := array(select distinct key from scene.busy);
  started bigint[];
  said text;
begin
  while cardinality(keys) > 0 loop
    keys := tidegate.wake(keys);
  end loop;
  started := scene.claim_all();
  select coalesce(string_agg(item, ' ' order by item), 'nothing') into said from scene.jobs where id = any(started);
  return said || coalesce((
    select ', STRANDED ' || string_agg(n.item, ' ' order by n.item)
      from tidegate.jobs j join scene.jobs n using (id) join tidegate.queues q on q.name = j.queue left join tidegate.limits l on l.key = j.limit_key
     where (j.state = 'ready' or j.state = 'scheduled' and j.run_at <= clock_timestamp()) and not q.suspended
       and coalesce((select count(*) from tidegate.jobs r where r.state = 'running' and r.limit_key = j.limit_key) < l.max_running, true)
       and coalesce((select coalesce(sum(m.n), 0) from tidegate.limit_starts m where m.key = j.limit_key) < l.max_starts, true)), '');
end $$;

-- Chance has no place in an expected output.
create or replace function tidegate.backoff(attempt int) returns interval language sql as $$
  select interval '1 hour'
$$;

-- A worker is done with all that it runs, under the tokens that it has.
create function scene.finish(me int) returns void language plpgsql as $$
declare
  keys text[];
begin
  select o.wake into keys
    from (select array_agg(id) jobs, array_agg(claim) claims from tidegate.jobs where state = 'running' and worker = scene.worker(me)) r,
         tidegate.ack(scene.worker(me), r.jobs, r.claims) o where r.jobs is not null;
  while cardinality(keys) > 0 loop
    keys := tidegate.wake(keys);
  end loop;
end $$;

-- Nothing holds any job back any more: all must end. What does not is left over. Each worker's outcomes are a transaction of their own.
create procedure scene.drain() language plpgsql as $$
begin
  for me in 1..3 loop
    perform scene.finish(me);
    commit;
  end loop;
  perform tidegate.set_queue('a', '{"suspended": false}');
  perform tidegate.clear_limit(key) from tidegate.limits order by key;
  perform tidegate.retry(id) from tidegate.jobs where state = 'scheduled';
  commit;
  for round in 1..20 loop
    exit when not exists (select from tidegate.jobs);
    perform scene.claim_all(1);
    perform scene.finish(3);
    commit;
  end loop;
  insert into scene.drift select (select max(number) from scene.permutations), kind, name, kept, truth from tidegate.recount();
  insert into scene.left_over select (select max(number) from scene.permutations), id, state = 'running', worker, claim from tidegate.jobs;
end $$;
