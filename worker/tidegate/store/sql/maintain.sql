call tidegate.maintain($1)
