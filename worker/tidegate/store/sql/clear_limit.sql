select to_json(tidegate.clear_limit($1::text))::text
