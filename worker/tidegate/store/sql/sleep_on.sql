select tidegate.sleep_on($1, $2)
