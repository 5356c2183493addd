insert into tidegate.schema_migrations(version, name) values ($1, $2)
