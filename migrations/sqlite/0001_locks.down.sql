DROP TABLE rowlock_schema;
DROP TABLE rowlock_clock;
DROP VIEW rowlock_held;
DROP TABLE rowlock_locks;
