"""Everything that talks to the API server through the Kubernetes client; the only package that imports it."""
