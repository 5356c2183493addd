select l.returned, l.wake from tidegate.leave($1) l
