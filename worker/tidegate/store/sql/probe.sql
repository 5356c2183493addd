select queue, next_at from tidegate.probe($1, $2)
