select tidegate.take_office($1::text, $2::text) as epoch
