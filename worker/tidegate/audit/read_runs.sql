select item, worker, at from tidegate_audit.runs order by seq
