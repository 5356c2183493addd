select o.name, o.outcome from tidegate.own_queues($1::text, $2::bigint, $3::text::jsonb, $4::boolean, $5::int) o
