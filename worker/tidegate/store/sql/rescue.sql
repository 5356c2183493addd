-- One row at least: whether others serve these queues goes along, so that an idle worker spends no statement on it.
select r.worker, r.jobs, r.dead, r.wake, exists (select from tidegate.workers w where w.alive and w.id <> $1 and w.queues && $2) as shared
  from (values (1)) one left join tidegate.rescue($1) r on true
