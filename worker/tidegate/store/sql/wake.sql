select tidegate.wake($1) as busy
