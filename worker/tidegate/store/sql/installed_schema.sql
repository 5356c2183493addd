select (select coalesce(max(version), 0) from tidegate.schema_migrations) as version,
       (select digest from tidegate.schema_functions) as digest,
       (select release from tidegate.schema_functions) as release
