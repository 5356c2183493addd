-- Locks: none. Cost: one mail row a lane. Tells the lanes that jobs left running.
create or replace function tidegate.mail_leavers(gone tidegate.leavers) returns void language sql
set search_path = tidegate, pg_temp as $$
  insert into lane_mail(queue, group_key, limit_key, actor, running)
  select q, g, k, a, -c from unnest(($1).queues, ($1).groups, ($1).keys, ($1).actors, ($1).counts) u(q, g, k, a, c)
$$;
