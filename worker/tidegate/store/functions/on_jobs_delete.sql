-- Locks: keys SKIP LOCKED. A row deleted by hand gives back what it held; the functions account for themselves and switch this off (tidegate.inside).
create or replace function tidegate.on_jobs_delete() returns trigger language plpgsql security definer
set search_path = tidegate, pg_temp as $$
begin
  insert into lane_mail(queue, group_key, limit_key, actor, ready, running)
  select queue, group_key, limit_key, actor, -count(*) filter (where state = 'ready'), -count(*) filter (where state = 'running')
    from old_rows where state in ('ready', 'running') group by 1, 2, 3, 4;
  insert into lane_mail(queue, ready) select queue, -count(*) from old_rows where state = 'scheduled' group by 1;
  perform free_keys(array_agg(limit_key), array_agg(n))
     from (select limit_key, count(*)::int n from old_rows where state = 'running' and limit_key <> '' group by 1) z having count(*) > 0;
  return null;
end $$;

create or replace trigger jobs_delete after delete on tidegate.jobs referencing old table as old_rows
  for each statement when (current_setting('tidegate.inside', true) is distinct from 'on') execute function tidegate.on_jobs_delete();

create or replace function tidegate.refuse_truncate() returns trigger language plpgsql as $$
begin
  raise exception 'tidegate: % of % is refused, the lanes would go on counting its rows', lower(tg_op), tg_table_name
    using hint = 'Use DELETE, or tidegate.cancel for waiting jobs.';
end $$;

create or replace trigger jobs_truncate before truncate on tidegate.jobs for each statement execute function tidegate.refuse_truncate();
