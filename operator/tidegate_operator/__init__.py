"""The Kubernetes operator: Limit and Queue objects into Postgres, live numbers into their status."""
