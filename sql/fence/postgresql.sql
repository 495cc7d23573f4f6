-- Fenced writes in PostgreSQL: what `rowlock fence-sql` prints. See sql/README.md for the words that
-- are replaced.

-- name: column
-- Each row keeps the highest fence that has written it. This may be run again; a column that was there
-- before must be BIGINT NOT NULL.
ALTER TABLE the_table ADD COLUMN IF NOT EXISTS the_column BIGINT NOT NULL DEFAULT 0;

-- name: update
-- Then write like this. id and value stand for columns of yours; $1 is the fence of the lock that you
-- hold: rowlock_fence(), or ROWLOCK_FENCE inside `rowlock run`.
--
--     UPDATE the_table
--        SET value = $2, the_column = $1
--      WHERE id = $3
--        AND the_column <= $1;
--
-- One row: written. No row: a later holder has written it, so the lock is not yours any more: roll
-- back and stop (or there is no such row). For a row that may be new, with the same answer:
--
--     INSERT INTO the_table AS t (id, value, the_column)
--     VALUES ($3, $2, $1)
--         ON CONFLICT (id) DO UPDATE
--        SET value = excluded.value, the_column = excluded.the_column
--      WHERE t.the_column <= excluded.the_column;
--
-- Every writer must do so, and each row knows its own fence alone: if one lock stands for several rows,
-- write one of them (the order, not its items) first in every transaction. A deleted row has forgotten
-- its fence: mark rows as deleted instead.

-- name: trigger
-- Refuses an UPDATE with a lower fence: SQLSTATE RL001, the transaction has failed. Before PostgreSQL
-- 14 leave out the OR REPLACE of the trigger.
CREATE OR REPLACE FUNCTION the_function() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a later holder of the lock has written this row of %', TG_TABLE_NAME
          USING ERRCODE = 'RL001',
                HINT    = 'The lock is not yours any more: roll back and stop.',
                SCHEMA  = TG_TABLE_SCHEMA,
                TABLE   = TG_TABLE_NAME;
END
$$;

CREATE OR REPLACE TRIGGER bare_trigger
    BEFORE UPDATE ON the_table
    FOR EACH ROW
    WHEN (NEW.the_column < OLD.the_column)
    EXECUTE FUNCTION the_function();

-- Writers set the_column to the fence of the lock that they hold: rowlock_fence(), or ROWLOCK_FENCE
-- inside `rowlock run`. The trigger cannot see an UPDATE that does not set it, and a row that is
-- deleted has forgotten its fence.
--
-- To remove it:
--
--     DROP TRIGGER bare_trigger ON the_table;
--     DROP FUNCTION the_function();
