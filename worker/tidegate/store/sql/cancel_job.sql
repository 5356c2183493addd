select to_json(tidegate.cancel($1::bigint))::text
