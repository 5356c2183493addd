-- Locks: the epoch FOR KEY SHARE, then queues in "C" order: tried where not `patient`, waited for where it is. Cost: that of set_queue for each row.
-- What Queue objects ask of their queues; arguments and outcomes are those of own_limits, with `name` for `key` and the changes of set_queue.
create or replace function tidegate.own_queues(cluster text, epoch bigint, wanted jsonb, patient boolean default false, most int default null)
returns table(name text, outcome text) language plpgsql security definer set search_path = tidegate, pg_temp as $$
#variable_conflict use_column
declare
  w record;
  held jsonb;
  lock_ int;
begin
  perform require_office(own_queues.cluster, own_queues.epoch);
  for w in select e->>'name' n, nullif(e->'expected', 'null') expected, e->'changes' changes
             from jsonb_array_elements(wanted) e order by e->>'name' collate "C" loop
    held := null;
    -- two clusters may both be about to make the queue: the row alone says nothing until it is there
    lock_ := hashtext('queue ' || w.n);
    if patient then
      perform pg_advisory_xact_lock(7438, lock_);
      select owner into held from queues where name = w.n for no key update;
    else
      if pg_try_advisory_xact_lock(7438, lock_) then
        select owner into held from queues where name = w.n for no key update skip locked;
        lock_ := case when found or not exists (select from queues where name = w.n) then lock_ end;
      else
        lock_ := null;
      end if;
      if lock_ is null then
        return query select w.n, 'busy';
        continue;
      end if;
    end if;
    if held->>'uid' is distinct from w.expected->>'uid' or held->>'cluster' is distinct from w.expected->>'cluster' then
      return query select w.n, 'taken';
    elsif most is not null and not spend_sweep(own_queues.cluster, most) then
      return query select w.n, 'held back';
    else
      perform set_queue(w.n, w.changes);
      return query select w.n, 'written';
    end if;
  end loop;
end $$;
