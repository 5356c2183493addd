-- Locks: none. Cost: one probe a queue; NOTIFY only where somebody sleeps, since it serialises every commit of the database. PL/pgSQL keeps its
-- plan; before PostgreSQL 18 a function in SQL is planned anew by every statement that calls it.
create or replace function tidegate.notify_sleepers(queues text[]) returns void language plpgsql
set search_path = tidegate, pg_temp as $$
begin
  perform pg_notify('tidegate', q) from (select distinct u q from unnest(notify_sleepers.queues) u) z where exists (select from sleepers s where s.queue = q);
end $$;
