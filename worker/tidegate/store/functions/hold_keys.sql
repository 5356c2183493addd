-- Locks: keys SKIP LOCKED, never waits. Cost: one row a key. The counts stand on the locked row, which READ COMMITTED reads again after locking it,
-- so one statement may do both. The instant is read after the last lock and never before a key's last mark.
create or replace function tidegate.hold_keys(wanted text[], held tidegate.hold) returns tidegate.hold language plpgsql
set search_path = tidegate, pg_temp as $$
declare
  got hold;
  last timestamptz;
begin
  select array_agg(key), array_agg(room), bool_or(rated), max(last_mark) into got.keys, got.rooms, got.marked, last
    from (select key, least(coalesce(max_running, 1000000000) - running, coalesce(max_starts, 1000000000) - starts)::int room, max_starts is not null rated, last_mark
            from keys where key = any(wanted) for no key update skip locked) z;
  held.at := greatest(clock_timestamp(), last, held.at);
  held.keys := held.keys || got.keys;
  held.rooms := held.rooms || got.rooms;
  held.marked := held.marked or coalesce(got.marked, false);
  return held;
end $$;
