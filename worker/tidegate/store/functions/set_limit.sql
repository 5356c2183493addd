-- Locks and cost: those of change_limit. For psql, triggers and other languages: what is left out keeps its value, null removes that part.
create or replace function tidegate.set_limit(key text, max_running int default -2147483648, max_starts int default -2147483648,
  rate_window interval default '-1 microsecond', weight int default -2147483648)
returns setof tidegate.limits language sql as $$
  select * from tidegate.change_limit($1, (
    select coalesce(jsonb_object_agg(part, value), '{}')
      from (values ('max_running', to_jsonb($2), $2 is distinct from -2147483648), ('max_starts', to_jsonb($3), $3 is distinct from -2147483648),
                   ('window_ms', to_jsonb(extract(epoch from $4) * 1000), $4 is distinct from interval '-1 microsecond'),
                   ('weight', to_jsonb($5), $5 is distinct from -2147483648)) v(part, value, given) where given))
$$;
