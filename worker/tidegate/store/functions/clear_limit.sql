-- Locks: the key, waits for it. Cost: its marks, one mail row for each queue that waits. Removes the policy and the start marks: the key has no limit, a
-- later one counts starts from zero. The row itself stays while jobs may run under the key. Returns whether there was a policy.
create or replace function tidegate.clear_limit(key text) returns boolean language plpgsql security definer
set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  p_key text := clear_limit.key;
  had boolean;
begin
  perform pg_advisory_xact_lock(7438, hashtext(p_key));      -- before the row, as change_limit does
  select max_running is not null or max_starts is not null or weight is not null into had from keys where key = p_key for no key update;
  if had then
    perform tidegate.change_limit(p_key, '{"max_running": null, "max_starts": null, "window_ms": null, "weight": null, "owner": null}');
  end if;
  return coalesce(had, false);
end $$;
