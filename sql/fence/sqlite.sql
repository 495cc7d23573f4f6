-- Fenced writes in SQLite: what `rowlock fence-sql` prints. See sql/README.md for the words that are
-- replaced.

-- name: column
-- Each row keeps the highest fence that has written it. Run this once: SQLite stops at "duplicate
-- column name". A column that was there before must be INTEGER NOT NULL.
ALTER TABLE the_table ADD COLUMN the_column INTEGER NOT NULL DEFAULT 0;

-- name: update
-- Then write like this. id and value stand for columns of yours; ?1 is the fence of the lock that you
-- hold: rowlock_fence(), or ROWLOCK_FENCE inside `rowlock run`.
--
--     UPDATE the_table
--        SET value = ?2, the_column = ?1
--      WHERE id = ?3
--        AND the_column <= ?1;
--
-- One row (sqlite3_changes()): written. No row: a later holder has written it, so the lock is not
-- yours any more: roll back and stop (or there is no such row). For a row that may be new, with the
-- same answer:
--
--     INSERT INTO the_table AS t (id, value, the_column)
--     VALUES (?3, ?2, ?1)
--         ON CONFLICT (id) DO UPDATE
--        SET value = excluded.value, the_column = excluded.the_column
--      WHERE t.the_column <= excluded.the_column;
--
-- Every writer must do so, and each row knows its own fence alone: if one lock stands for several rows,
-- write one of them (the order, not its items) first in every transaction. A row that is deleted, or
-- written by INSERT OR REPLACE, has forgotten its fence: mark rows as deleted instead.

-- name: trigger
-- Refuses an UPDATE with a lower fence: SQLITE_CONSTRAINT_TRIGGER, the statement is undone.
CREATE TRIGGER IF NOT EXISTS the_trigger
    BEFORE UPDATE ON bare_table
    FOR EACH ROW
    WHEN NEW.the_column < OLD.the_column
BEGIN
    SELECT RAISE(ABORT, 'a later holder of the lock has written this row: roll back and stop');
END;

-- Writers set the_column to the fence of the lock that they hold: rowlock_fence(), or ROWLOCK_FENCE
-- inside `rowlock run`. The trigger cannot see an UPDATE that does not set it, and a row that is
-- deleted, or written by INSERT OR REPLACE, has forgotten its fence.
--
-- To remove it:
--
--     DROP TRIGGER the_trigger;
