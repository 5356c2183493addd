-- Locks: keys SKIP LOCKED, never waits. Cost: one update a key, or one mail row where the key is busy.
-- Jobs of these keys left running: gives the capacity back and tells whoever waits. Returns the busy keys: after commit the caller calls wake().
create or replace function tidegate.free_keys(freed text[], counts int[]) returns text[] language plpgsql
set search_path = tidegate, pg_temp as $$
declare
  held text[];
  waited text[];
  busy text[];
begin
  with z as materialized (select x.k, sum(x.c) c from unnest(freed, counts) x(k, c) group by x.k),
  h as materialized (select m.key, z.c from z join keys m on m.key = z.k for no key update of m skip locked),
  u as (update keys k set running = k.running - h.c from h where k.key = h.key returning k.key, k.waiting)
  select array_agg(key), array_agg(key) filter (where waiting <> '{}') into held, waited from u;
  if waited is not null then
    perform reopen(waited);
  end if;
  if cardinality(held) = cardinality(freed) then
    return null;
  end if;
  select array_agg(distinct k) into busy from unnest(freed) k where k <> '' and k <> all(coalesce(held, '{}'));
  if busy is not null then
    insert into key_mail(key, running) select k, -sum(c) from unnest(freed, counts) x(k, c) where k = any(busy) group by k;
  end if;
  return busy;
end $$;
