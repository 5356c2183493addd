-- Locks: the epoch FOR KEY SHARE, then keys in "C" order: tried where not `patient`, waited for where it is. Cost: that of change_limit for each row.
-- What Limit objects ask of their keys. `wanted`: an array of {key, expected, changes}; changes are those of change_limit, expected is the owner
-- {cluster, uid} that the caller saw, null for none. A row whose owner is another by now is left alone: `taken`. A key that somebody holds is left for a
-- patient call: `busy`. With `most`, each row is paid for from the sweep's budget, or `held back`.
create or replace function tidegate.own_limits(cluster text, epoch bigint, wanted jsonb, patient boolean default false, most int default null)
returns table(key text, outcome text) language plpgsql security definer set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  w record;
  held jsonb;
  locked boolean;
begin
  perform require_office(own_limits.cluster, own_limits.epoch);
  for w in select e->>'key' k, nullif(e->'expected', 'null') expected, e->'changes' changes
             from jsonb_array_elements(wanted) e order by e->>'key' collate "C" loop
    held := null;
    if patient then
      perform pg_advisory_xact_lock(7438, hashtext(w.k));    -- before the row, as change_limit does
      select owner into held from keys where key = w.k for no key update;
    else
      locked := pg_try_advisory_xact_lock(7438, hashtext(w.k));
      if locked then
        select owner into held from keys where key = w.k for no key update skip locked;
        locked := found or not exists (select from keys where key = w.k);
      end if;
      if not locked then
        return query select w.k, 'busy';
        continue;
      end if;
    end if;
    if held->>'uid' is distinct from w.expected->>'uid' or held->>'cluster' is distinct from w.expected->>'cluster' then
      return query select w.k, 'taken';
    elsif most is not null and not spend_sweep(own_limits.cluster, most) then
      return query select w.k, 'held back';
    else
      perform change_limit(w.k, w.changes);
      return query select w.k, 'written';
    end if;
  end loop;
end $$;
