-- Locks: the queue, waits for a claim. Cost: at most `most` mail rows, promotions and expiries each. Returns whether there is more to do.
-- Maintenance of one queue: what nobody claims from is folded, what fell due in a mass is promoted outside of claims, what expired leaves.
create or replace function tidegate.sweep_queue(queue text, most int) returns boolean language plpgsql security definer
set search_path = tidegate, pg_temp set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  p_queue text := sweep_queue.queue;
  at timestamptz := clock_timestamp();
  late bigint[];
  promoted int;
  folded int;
begin
  perform from queues where name = p_queue for no key update;
  late := array(select id from jobs where queue = p_queue and expires_at <= at and state <> 'running' order by expires_at limit most);
  if late <> '{}' then
    perform expire_jobs(p_queue, late, at);
  end if;
  -- what the mail says of scheduled jobs comes first
  folded := fold_mail(p_queue, most);
  promoted := promote_jobs(p_queue, most);
  return cardinality(late) >= most or promoted >= most or folded >= most;
end $$;
