-- The view fits version 2 as well, and stays.
DELETE FROM rowlock_schema WHERE version = 3;
DROP TABLE IF EXISTS rowlock_floor;
