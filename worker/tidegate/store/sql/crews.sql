-- jobs: whatever runs under the worker's token, in every queue, found by its claims
select w.id, w.namespace, w.pod, w.slots, w.draining_at is not null as draining,
       (select count(*)
          from tidegate.claims c cross join lateral unnest(c.jobs) u(job)
          join tidegate.jobs j on j.id = u.job and j.worker = w.id and j.claim = c.claim and j.state = 'running'
         where c.worker = w.id) as jobs
  from tidegate.workers w
 where w.alive and w.pod is not null and w.namespace = any($1::text[])
