-- The rule of keys, queue and actor names: 1 to 200 code points, no control character, no blank at either end.
create or replace function tidegate.is_name(name text) returns boolean
language sql immutable parallel safe as $$
  select length(name) <= 200 and name collate "C" ~ '^[^\x01-\x20\x7f]([^\x01-\x1f\x7f]*[^\x01-\x20\x7f])?$'
$$;
