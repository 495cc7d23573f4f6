-- Fenced writes in MySQL and MariaDB: what `rowlock fence-sql` prints. See sql/README.md for the words
-- that are replaced.

-- name: column
-- Each row keeps the highest fence that has written it. MariaDB lets this be run again; MySQL stops at
-- "Duplicate column name". A column that was there before must be BIGINT NOT NULL.
ALTER TABLE the_table ADD COLUMN /*M! IF NOT EXISTS */ the_column BIGINT NOT NULL DEFAULT 0;

-- name: update
-- Then write like this. id and value stand for columns of yours; the second and the last ? are the
-- fence of the lock that you hold: rowlock_fence(), or ROWLOCK_FENCE inside `rowlock run`.
--
--     UPDATE the_table
--        SET value = ?, the_column = ?
--      WHERE id = ?
--        AND the_column <= ?;
--
-- One row: written. No row: a later holder has written it, so the lock is not yours any more: roll
-- back and stop (or there is no such row). A trap: MySQL does not count a row that was the same before.
-- Connect with CLIENT_FOUND_ROWS, as JDBC does by default, or ask when the count is 0; more than your
-- own fence means stop:
--
--     SELECT the_column FROM the_table WHERE id = ? FOR UPDATE;
--
-- A new row starts with the fence of its writer; on a duplicate key go on with the UPDATE:
--
--     INSERT INTO the_table (id, value, the_column) VALUES (?, ?, ?);
--
-- Every writer must do so, and each row knows its own fence alone: if one lock stands for several rows,
-- write one of them (the order, not its items) first in every transaction. A row that is deleted, or
-- written by REPLACE, has forgotten its fence: mark rows as deleted instead.

-- name: trigger
-- Refuses an UPDATE with a lower fence: error 1644, SQLSTATE 45000, the statement is undone. DELIMITER
-- is a word of the mysql client and of migration tools; over an API send what stands between the two
-- without the //. IF NOT EXISTS needs MySQL 8.0.29. Error 1419 means that the server wants
-- log_bin_trust_function_creators for triggers.
DELIMITER //
CREATE TRIGGER IF NOT EXISTS the_trigger
    BEFORE UPDATE ON the_table
    FOR EACH ROW
    IF NEW.the_column < OLD.the_column THEN
        SIGNAL SQLSTATE '45000'
           SET MESSAGE_TEXT = 'a later holder of the lock has written this row: roll back and stop';
    END IF//
DELIMITER ;

-- Writers set the_column to the fence of the lock that they hold: rowlock_fence(), or ROWLOCK_FENCE
-- inside `rowlock run`. The trigger cannot see an UPDATE that does not set it, and a row that is
-- deleted, or written by REPLACE, has forgotten its fence.
--
-- To remove it:
--
--     DROP TRIGGER the_trigger;
