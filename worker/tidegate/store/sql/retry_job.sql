select to_json(tidegate.retry($1::bigint))::text
