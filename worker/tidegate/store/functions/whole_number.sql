-- Whether a JSON value is a whole number within bounds; 4.0 is none, as in the model.
create or replace function tidegate.whole_number(value jsonb, least_ bigint, most bigint) returns boolean language sql immutable as $$
  select case when jsonb_typeof($1) = 'number' then $1::text ~ '^-?[0-9]+$' and $1::numeric between $2 and $3 else false end
$$;
