insert into tidegate_audit.runs(item, worker) values ($1, $2)
