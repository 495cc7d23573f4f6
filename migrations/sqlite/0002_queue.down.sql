DELETE FROM rowlock_schema WHERE version = 2;
DROP VIEW rowlock_queue;
DROP TABLE rowlock_waiters;
