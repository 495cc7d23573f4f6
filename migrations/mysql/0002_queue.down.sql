DELETE FROM rowlock_schema WHERE version = 2;
DROP VIEW IF EXISTS rowlock_queue;
DROP TABLE IF EXISTS rowlock_waiters;
