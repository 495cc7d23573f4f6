-- The views fit version 2 as well, and stay.
DELETE FROM rowlock_schema WHERE version = 3;
