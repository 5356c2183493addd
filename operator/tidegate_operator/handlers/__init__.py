"""The watch: kopf feeds what it sees into a cache and decides nothing; the only package that imports kopf."""
