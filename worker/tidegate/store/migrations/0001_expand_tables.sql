-- The tables of Tidegate. Functions live one to a file in store/functions; docs/how-a-claim-works.md explains lanes, mail and gates.
create schema tidegate;

-- Domains, and no checks on the tables that a claim writes: a check is prepared anew by every statement that writes its table, a domain is looked at
-- only where a value is given.
create domain tidegate.cap as int check (value between 0 and 1000000);
create domain tidegate.span as interval check (value between '100 milliseconds' and '24 hours');
create domain tidegate.share as int check (value between 1 and 1000);
create domain tidegate.end_state as text check (value in ('succeeded', 'dead', 'cancelled', 'expired'));

create table tidegate.schema_migrations(
  version int primary key,
  name text not null,
  applied_at timestamptz not null default clock_timestamp());

create table tidegate.schema_functions(
  only_row boolean primary key check (only_row),
  digest text not null,
  release text not null,
  applied_at timestamptz not null default clock_timestamp());

-- What holds for the whole database, in one row.
create table tidegate.settings(
  only_row boolean primary key default true check (only_row),
  max_payload_bytes int not null default 1048576 check (max_payload_bytes between 1024 and 268435456),
  server bigint);
insert into tidegate.settings default values;
comment on column tidegate.settings.max_payload_bytes is 'bytes of JSON that the payload of a new job may have: set_max_payload_bytes';
comment on column tidegate.settings.server is 'system identifier of the server whose transaction ids the low waters `folded` and `swept` are';

-- One per process start. Claims take a row FOR KEY SHARE; rescue, leave and drain take it FOR UPDATE.
create table tidegate.workers(
  id uuid primary key,
  name text not null,
  queues text[] not null,
  actors text[] not null,
  slots int not null,
  fair boolean,
  version text not null,
  namespace text,
  pod text,
  lease interval not null,
  started_at timestamptz not null default clock_timestamp(),
  seen_at timestamptz not null default clock_timestamp(),
  contact_since timestamptz not null default clock_timestamp(),
  draining_at timestamptz,
  alive boolean not null default true) with (fillfactor = 50);

-- Which jobs a claim started: one row a claim instead of an index on running jobs, which every start and finish would pay for.
create table tidegate.claims(
  worker uuid not null,
  claim bigint not null,
  jobs bigint[] not null,
  primary key (worker, claim));

-- Who wants to be told of new work; only then is NOTIFY sent, because it serialises every commit of the database.
create table tidegate.sleepers(
  queue text collate "C" not null,
  worker uuid not null,
  primary key (queue, worker));

-- Locked by every claim of the queue: the owner of the row is the only writer of the queue's lanes, gates and low waters.
create table tidegate.queues(
  name text collate "C" primary key,
  declared_order text not null default 'priority' check (declared_order in ('priority', 'fair')),
  kept_order text not null default 'priority' check (kept_order in ('priority', 'fair', 'both')),
  suspended boolean not null default false,
  held_by_hand boolean not null default false,
  default_priority smallint,
  default_max_attempts smallint check (default_max_attempts between 1 and 1000),
  default_timeout interval check (default_timeout > '0'),
  keep_succeeded interval check (keep_succeeded >= '0'),
  keep_dead interval check (keep_dead >= '0'),
  owner jsonb,
  scheduled bigint not null default 0,
  folded xid8 not null default '0',
  swept xid8 not null default '0',
  swept_at timestamptz not null default clock_timestamp(),
  gate_low timestamptz not null default '-infinity',
  due_at timestamptz not null default '-infinity',
  due_from timestamptz not null default '-infinity',
  due_id bigint not null default 0) with (fillfactor = 50);
comment on column tidegate.queues.kept_order is 'the orders for which lanes are ranked; widened by the first claim in another order';
comment on column tidegate.queues.folded is 'low water: no lane_mail of the queue that is still to be folded has a lower xid';
comment on column tidegate.queues.swept is 'lanes that were changed last by an older transaction are idle since the last sweep of idle lanes';
comment on column tidegate.queues.gate_low is 'low water: no closed gate of the queue is due before';
comment on column tidegate.queues.due_at is 'when a claim looks for scheduled jobs that are due: due_from, or a little later where a mass is due and enough is ready';
comment on column tidegate.queues.due_from is 'low water, with due_id: no scheduled job of the queue stands before (run_at, id)';

-- The lane of four texts: eight bytes, so that an index descent compares integers. Neither it nor the negative priority is a column of jobs: what is
-- generated is prepared anew by every statement that updates the table, even where nothing changes that it depends on.
create function tidegate.lane_of(queue text, group_key text, limit_key text, actor text) returns bigint
language sql immutable parallel safe as $$
  select hashtextextended(actor collate "C", hashtextextended(limit_key collate "C",
         hashtextextended(group_key collate "C", hashtextextended(queue collate "C", 0))))
$$;

-- A statement's jobs are due at one instant unless they say otherwise, so their ids alone order them: the mail of many is counted without a sort.
create table tidegate.jobs(
  id bigint generated always as identity primary key,
  claim bigint,
  run_at timestamptz not null default statement_timestamp(),
  expires_at timestamptz,
  started_at timestamptz,
  cancel_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  timeout interval,
  worker uuid,
  bytes int not null generated always as (octet_length(payload::text)) stored,
  priority smallint not null default 0,
  attempt smallint not null default 0,
  max_attempts smallint not null default 5,
  lost smallint not null default 0,
  state text not null default 'ready',
  queue text collate "C" not null,
  actor text collate "C" not null,
  group_key text collate "C" not null default '',
  limit_key text collate "C" not null default '',
  job_key text collate "C",
  error text,
  traceback text,
  headers jsonb,
  payload jsonb not null default '{}') with (fillfactor = 90);
-- the negative priority, so that one ascending row comparison gives the order and skips what lies before
create index jobs_ready on tidegate.jobs(tidegate.lane_of(queue, group_key, limit_key, actor), (-priority::int), run_at, id) where state = 'ready';
create index jobs_scheduled on tidegate.jobs(queue, run_at, id) where state = 'scheduled';
create index jobs_expiring on tidegate.jobs(queue, expires_at) where expires_at is not null and state <> 'running';
create unique index jobs_job_key on tidegate.jobs(queue, job_key) where job_key is not null;

-- Finished jobs, until keep_until.
create table tidegate.history(
  id bigint primary key,
  claim bigint,
  run_at timestamptz not null,
  expires_at timestamptz,
  started_at timestamptz,
  created_at timestamptz not null,
  finished_at timestamptz not null,
  keep_until timestamptz not null,
  timeout interval,
  worker uuid,
  bytes int not null,
  priority smallint not null,
  attempt smallint not null,
  max_attempts smallint not null,
  lost smallint not null,
  state tidegate.end_state not null,
  queue text collate "C" not null,
  actor text collate "C" not null,
  group_key text collate "C" not null,
  limit_key text collate "C" not null,
  job_key text collate "C",
  error text,
  traceback text,
  headers jsonb,
  payload jsonb not null);
create index history_prune on tidegate.history(keep_until);
create index history_unsuccessful on tidegate.history(state, queue, id) where state <> 'succeeded';

-- One per (queue, group_key, limit_key, actor). Written only under the queue's row lock. Its hash is not unique on purpose: whoever
-- looks one up compares the texts too, so that a collision, found or forged, costs a row and nothing else.
create table tidegate.lanes(
  lane bigint not null,
  id bigint,
  run_at timestamptz,
  rank float8 not null default 0,
  weight float8 not null default 'infinity',
  ready int not null default 0,
  running int not null default 0,
  bytes int,
  neg int,
  open boolean not null default true,
  many boolean not null default false,
  dual boolean not null default false,
  gated boolean not null default false,
  queue text collate "C" not null,
  actor text collate "C" not null,
  group_key text collate "C" not null,
  limit_key text collate "C" not null) with (fillfactor = 60);
create index lanes_hash on tidegate.lanes(lane);
create index lanes_order on tidegate.lanes(queue, actor, neg, rank, run_at, id) where open and id is not null;
create index lanes_closed on tidegate.lanes(queue, limit_key, actor, neg, rank, run_at, id) where not open;
create index lanes_plain on tidegate.lanes(queue, actor, neg, run_at, id) where open and id is not null and dual;
create index lanes_plain_closed on tidegate.lanes(queue, limit_key, actor, neg, run_at, id) where not open and dual;
comment on column tidegate.lanes.rank is 'running jobs of the group in this queue / weight; 0 where only the priority order is kept';
comment on column tidegate.lanes.weight is 'weight of the group, infinity where only the priority order is kept; divided by, since a quotient is rounded once and equal shares stay equal';
comment on column tidegate.lanes.many is 'the group has other lanes in this queue';
comment on column tidegate.lanes.dual is 'the queue is claimed in both orders';
comment on column tidegate.lanes.open is 'false: the limit is full, and the gate of its key says what opens it; a closed lane has a head';
comment on column tidegate.lanes.gated is 'the key may have closed lanes in this queue: whoever starts a job of this lane looks after its gate';

-- One for each key with closed lanes in a queue. While it is shut, the queue is registered at the key (keys.waiting), or recheck_at is set, or a
-- reopening is in the mail. While it is not, the key's first lane in each order is open and marked `gated`, so that the key stands where it belongs and
-- whoever starts from it opens the next. With a lane: that lane alone waits, for a job that somebody else has locked.
create table tidegate.gates(
  queue text collate "C" not null,
  limit_key text collate "C" not null,
  lane bigint,
  shut boolean not null default true,
  recheck_at timestamptz);
create index gates_key on tidegate.gates(queue, limit_key);
create index gates_due on tidegate.gates(queue, recheck_at) where recheck_at is not null;

-- No open lane of this actor with work stands before it: a scan starts here instead of walking dead index entries.
create table tidegate.low_waters(
  queue text collate "C" not null,
  actor text collate "C" not null,
  neg int not null default -32768,
  rank float8 not null default '-infinity',
  run_at timestamptz not null default '-infinity',
  id bigint not null default 0,
  primary key (queue, actor)) with (fillfactor = 40);

-- The lanes of each group; written when a lane is made, never by a claim that only starts jobs.
create table tidegate.groups(
  queue text collate "C" not null,
  group_key text collate "C" not null,
  lanes bigint[] not null,
  primary key (queue, group_key));

-- One per limit_key in use, with or without a policy, so that the first use of a key is no special case. The relation
-- tidegate.limits shows those with a policy. No index but the key: every update is HOT.
create table tidegate.keys(
  key text collate "C" primary key,
  max_running tidegate.cap,
  max_starts tidegate.cap,
  rate_window tidegate.span,
  weight tidegate.share,
  running bigint not null default 0,
  starts bigint not null default 0,
  last_mark timestamptz not null default '-infinity',
  mark_low timestamptz not null default '-infinity',
  folded xid8 not null default '0',
  waiting text[] not null default '{}',
  owner jsonb,
  updated_at timestamptz) with (fillfactor = 40);
comment on column tidegate.keys.starts is 'sum of the marks in limit_starts that still exist, expired ones included';
comment on column tidegate.keys.waiting is 'queues with a gate closed on this key: whoever frees capacity posts a reopening to each';

-- One for each id of a cluster whose objects an operator reconciles here. A new leader takes its row FOR UPDATE and raises the epoch; every write of a
-- leader takes it FOR KEY SHARE with the epoch that it was given: so nothing of an earlier leader is written after a later one took office.
create table tidegate.epochs(
  cluster text collate "C" primary key,
  epoch bigint not null,
  holder text not null,
  taken_at timestamptz not null default clock_timestamp(),
  swept timestamptz[] not null default '{}');
comment on column tidegate.epochs.swept is 'when rows of objects that are gone were given up within the last minute: the budget of the sweep';

-- The keys that have a policy.
create view tidegate.limits as
select key, max_running, max_starts, rate_window, weight, owner, updated_at from tidegate.keys
 where max_running is not null or max_starts is not null or weight is not null;

-- Starts counted against max_starts: one mark a claim and key.
create table tidegate.limit_starts(
  key text collate "C" not null,
  started_at timestamptz not null,
  n int not null);
create index limit_starts_key on tidegate.limit_starts(key, started_at);

-- What producers and lone finishes tell a lane, folded by the next claim. Without an actor: news of scheduled jobs, or a reopening.
create table tidegate.lane_mail(
  xid xid8 not null default pg_current_xact_id(),
  id bigint,
  run_at timestamptz,
  ready int not null default 0,
  running int not null default 0,
  bytes int,
  neg int,
  reopen boolean not null default false,
  queue text collate "C" not null,
  group_key text collate "C",
  limit_key text collate "C",
  actor text collate "C");
create index lane_mail_queue on tidegate.lane_mail(queue, xid);

-- What a finish tells a key that was locked by somebody else. Only ever lowers the key's count.
create table tidegate.key_mail(
  xid xid8 not null default pg_current_xact_id(),
  running int not null,
  key text collate "C" not null);
create index key_mail_key on tidegate.key_mail(key, xid);

-- A job's place in its lane.
create type tidegate.place as (neg int, run_at timestamptz, id bigint, bytes int);

-- A lane that a claim looks at: where its row lies, where its head stands, and the job after the head, null where there is none.
create type tidegate.step as (
  tid tid,
  head_neg int,
  head_rank float8,
  head_run timestamptz,
  neg int,
  run_at timestamptz,
  id bigint,
  bytes int);

-- The lanes that a claim looks at, in order: their keys, heads and steps.
create type tidegate.pick as (
  keys text[],
  ids bigint[],
  steps tidegate.step[],
  one_each boolean);

-- The keys that a claim holds, the room left under each, and the one instant of every start it makes.
create type tidegate.hold as (
  keys text[],
  rooms int[],
  marked boolean,
  at timestamptz,
  busy text[],
  watched text[],
  again boolean);

-- Jobs that left running, counted by lane.
create type tidegate.leavers as (
  lanes bigint[],
  queues text[],
  groups text[],
  keys text[],
  actors text[],
  counts int[]);
