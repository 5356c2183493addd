-- The ids of the first array that are not in the second; null when there are none.
create or replace function tidegate.without(ids bigint[], taken bigint[]) returns bigint[] language sql immutable as $$
  select array_agg(i) from unnest($1) i where i <> all(coalesce($2, '{}'))
$$;
