select id, state = 'running' as running, worker, claim from tidegate.jobs
