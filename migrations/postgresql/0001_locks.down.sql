DROP TABLE rowlock_schema;
DROP VIEW rowlock_held;
DROP TABLE rowlock_locks;
