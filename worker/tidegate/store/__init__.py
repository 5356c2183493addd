"""Everything that talks to Postgres; the only package that imports asyncpg."""
