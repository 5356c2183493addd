-- Locks: the new row. Cost: one insert, once for each queue. Claims and workers make queues; producers never do.
create or replace function tidegate.ensure_queue(name text) returns void language plpgsql
set search_path = tidegate, pg_temp as $$
begin
  if not tidegate.is_name(ensure_queue.name) then
    raise exception 'tidegate: queue: % is not a name: 1 to 200 characters, none of control, no blank at either end', quote_literal(ensure_queue.name)
      using errcode = '22023';
  end if;
  insert into tidegate.queues(name) values (ensure_queue.name) on conflict do nothing;
end $$;
