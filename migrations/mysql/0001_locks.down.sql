DROP TABLE IF EXISTS rowlock_schema;
DROP VIEW IF EXISTS rowlock_held;
DROP TABLE IF EXISTS rowlock_locks;
