-- The statements of the MySQL and MariaDB driver; MySQL 8.0+, MariaDB 10.6+.
--
-- Each ? is replaced by a literal that the driver makes itself: an integer, x'hex' or a JSON text of
-- integers and hex digits. Nothing of the user's is ever escaped or pasted. A batch travels as one
-- JSON array, @rowlock_ops, of [name, owner, attempt, fence, ttl, seen, note, i, ticket, upto], sorted
-- by name, i being the caller's index; tickets below upto come first. One packet holds all statements of
-- a call, in one transaction, so that the answer is read while the rows that were changed are still
-- locked. The usual cases have short statements without JSON: acquire_free and release_one for one lock,
-- acquire_many and release_many for several. Isolation is READ COMMITTED: the plain reads take no lock, also
-- inside INSERT ... SELECT.
--
-- "FOR UPDATE SKIP LOCKED" in a subquery that depends on w locks one row by its key, and only after
-- the plain read has found it worth locking. So nobody waits for an existing row, a busy row is not
-- touched, and there is nothing to deadlock on. INSERT ... ON DUPLICATE KEY UPDATE is the one
-- statement of both servers that creates or changes rows from a SELECT and assigns from left to right.
-- It takes what comes from the SELECT as VALUES(column), never as w.column: the SELECT reads the table
-- that is written, so its rows are put aside first, and w no longer stands on the row at hand.
-- UPDATE and DELETE that join say FORCE INDEX (PRIMARY): MariaDB 11 reads, and locks, all rows of a
-- small table otherwise, and so waits for those of others.
--
-- Fences rise per name. While a row is there its own fence sees to that; a row that is made has one above
-- the floor (rowlock_floor), to which `reap` has raised it before it deleted a row. See sql/README.md.
--
-- A lease lives while it has holds and its time has not passed: a clock that was set back brings none back.
-- fragment: live = (ROW.hold_count > 0 AND ROW.expire_time > NOW)
-- fragment: free = (ROW.hold_count = 0 OR ROW.expire_time <= NOW)
-- When the last lease ends or ended; 0: it was given back.
-- fragment: end = IF(ROW.hold_count > 0, ROW.expire_time, 0)
--
-- An acquire that arrives late, after its client has asked again and has even released: the row has a later
-- attempt of the same owner and client. (The first half of an attempt is the client's, the second one counts.)
-- fragment: stale = (ROW.owner = NOW.owner AND ROW.attempt > NOW.attempt AND LEFT(ROW.attempt, 8) = LEFT(NOW.attempt, 8))
-- fragment: stale_hex = (ROW.owner = UNHEX(NOW.owner) AND ROW.attempt > UNHEX(NOW.attempt) AND LEFT(ROW.attempt, 8) = LEFT(UNHEX(NOW.attempt), 8))
-- fragment: stale_one = (ROW.owner = @rowlock_owner AND ROW.attempt > @rowlock_attempt AND LEFT(ROW.attempt, 8) = LEFT(@rowlock_attempt, 8))
-- ? owner, ? attempt, ? attempt
-- fragment: stale_literal = (ROW.owner = ? AND ROW.attempt > ? AND LEFT(ROW.attempt, 8) = LEFT(?, 8))

-- A primary that was demoted grants nothing, whatever the user may: what makes or extends a tenure has this
-- condition, which is always true or error 1690, its own text with OFF in it. It is in the statement itself,
-- which SET GLOBAL read_only waits for, and constant, so that no row is touched. (It is a word in newer versions
-- of MariaDB; super_read_only sets read_only, too, and innodb_read_only binds everybody.)
-- fragment: primary = 9223372036854775807 + (CAST(@@global.read_only AS CHAR) NOT IN ('0', 'OFF'))

-- What a connection sets. Lock waits are whole seconds in these servers: one for rows, two
-- for a table that is being altered. MariaDB 11 refuses (error 1020) to lock a row that was changed
-- after the statement had first looked at it, unless told not to: here that look decides nothing.
-- The rest is settings whose global value would make statements fail, or cut their answers short: limits of
-- rows and of time, updates "without a key", joins "too large", a COMMIT that hangs up or begins the next
-- transaction, names that are sorted by their first bytes, inserts that lock a whole table, another
-- engine, which knows no locks, in place of the one that was asked for, and joins that fetch rows in batches,
-- in which MariaDB takes a row that is locked (NOWAIT) for one that is not there.
-- name: session
SET NAMES utf8mb4;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', autocommit = 1,
            innodb_lock_wait_timeout = 1, lock_wait_timeout = 2, group_concat_max_len = 1048576,
            sql_select_limit = 18446744073709551615, sql_safe_updates = 0, sql_big_selects = 1,
            completion_type = 0, max_sort_length = 1024, unique_checks = 1, optimizer_switch = 'default'
            /*M!100600 , max_statement_time = 0, join_cache_level = 2 */
            /*!80000 , max_execution_time = 0 */
            /*M!110402 , innodb_snapshot_isolation = OFF */;
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET SESSION TRANSACTION READ WRITE;

-- "many": in clusters with several writers a named lock is known to one server alone. "applies": MariaDB
-- tells everybody how many replications run; MySQL is asked by `replica`.
-- name: server
SELECT VERSION(),
       CAST(@@read_only AS CHAR) NOT IN ('0', 'OFF') OR @@innodb_read_only,
       @@max_allowed_packet,
       (SELECT COUNT(*)
          FROM /*M!100600 information_schema.global_variables */
               /*!80000 performance_schema.global_variables */ AS v
         WHERE (v.variable_name = 'wsrep_cluster_address' AND v.variable_value <> '')
            OR (v.variable_name = 'group_replication_single_primary_mode'
                AND v.variable_value = 'OFF')) AS many,
       @@version_comment,
       (SELECT COUNT(*)
          FROM /*M!100600 information_schema.global_status */
               /*!80000 performance_schema.global_status */ AS s
         WHERE s.variable_name = 'slaves_running'
           AND s.variable_value <> '0') AS applies;

-- Where the statements above are refused: by whom?
-- name: product
SELECT @@version_comment;

-- Needs a privilege (REPLICATION CLIENT). Before 8.0.22 it shows something else, which has no such columns.
-- name: replica
SHOW /*!80022 REPLICA */ STATUS;

-- The clock of the whole call: read when the request arrives. Being early is on the safe side.
-- name: begin
SET @rowlock_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
    @rowlock_ops = ?,
    @rowlock_all = ?,
    @rowlock_bad = 0;

-- name: start
START TRANSACTION;

-- All or none. Counts the rows that others hold or wait for; if there are none, creates what is absent as free rows,
-- in a transaction of its own, then locks all of them and counts those that it could not: held, locked by
-- others, or reaped meanwhile. With all of them locked nothing can come in between any more. Rows are
-- created beforehand because a later failure would undo their insertion, and whoever waits for an
-- insertion that is undone is left with a gap lock: two of them deadlock. Nobody raises the floor while
-- they are made. The clock is read again once they are there, so that no fence is older than its row. The
-- scalar subqueries cannot become joins, which might read, and lock, the whole table; the floor is asked for
-- where a row is absent.
-- name: gate
SELECT COUNT(*) INTO @rowlock_bad
  FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
           name    VARCHAR(510) CHARACTER SET latin1 PATH '$[0]',
           owner   VARCHAR(510) CHARACTER SET latin1 PATH '$[1]',
           attempt VARCHAR(32)  CHARACTER SET latin1 PATH '$[2]',
           ticket  BIGINT       PATH '$[8]',
           upto    BIGINT       PATH '$[9]')) AS w
       LEFT JOIN rowlock_locks AS l ON l.name = UNHEX(w.name)
 WHERE CASE WHEN {stale_hex l w}
            THEN 1
            WHEN {live l @rowlock_now}
            THEN l.owner <> UNHEX(w.owner)
            WHEN l.wait_until <= @rowlock_now AND w.ticket = 0
            THEN 0
            ELSE EXISTS (SELECT 1
                           FROM rowlock_waiters AS q
                          WHERE q.name = UNHEX(w.name)
                            AND q.ticket > COALESCE(l.ticket, 0)
                            AND q.ticket < w.upto
                            AND q.expire_time > @rowlock_now) END;
INSERT INTO rowlock_locks
       (name, owner, fence, hold_count, attempt, acquire_time, expire_time)
SELECT UNHEX(w.name), '',
       GREATEST(@rowlock_now, (SELECT f.fence
                                 FROM rowlock_floor AS f
                                WHERE f.id = IF(l.name IS NULL, 1, 0)
                                 LOCK IN SHARE MODE)),
       0, '', @rowlock_now, @rowlock_now
  FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
           i    INT          PATH '$[7]',
           name VARCHAR(510) CHARACTER SET latin1 PATH '$[0]')) AS w
       LEFT JOIN rowlock_locks AS l ON l.name = UNHEX(w.name)
 WHERE {primary}
   AND @rowlock_bad = 0
   AND l.name IS NULL
 ORDER BY w.i
ON DUPLICATE KEY UPDATE
       hold_count = rowlock_locks.hold_count;
SET @rowlock_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
START TRANSACTION;
SELECT @rowlock_bad + COUNT(*) INTO @rowlock_bad
  FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
           name    VARCHAR(510) CHARACTER SET latin1 PATH '$[0]',
           owner   VARCHAR(510) CHARACTER SET latin1 PATH '$[1]',
           attempt VARCHAR(32)  CHARACTER SET latin1 PATH '$[2]')) AS w
 WHERE @rowlock_bad = 0
   AND (SELECT 1
          FROM rowlock_locks AS k
         WHERE k.name = UNHEX(w.name)
           AND ({free k @rowlock_now} OR k.owner = UNHEX(w.owner))
           AND NOT {stale_hex k w}
           FOR UPDATE SKIP LOCKED) IS NULL;

-- Takes what is absent, expired, without holds or the owner's own, unless others wait for it and come
-- first; nobody does where wait_until has passed, so that nothing is looked for then. (With all, the gate
-- has looked.) The clock of the call may be older
-- than the end of the tenure or the transaction before, so that expire_time is still ahead of it: no
-- tenure goes on without a hold, also not the owner's own. The first assignment says so to all others,
-- which go from left to right; the last one gives the column its value.
--
-- A row that somebody created after the plain read is decided on again under its lock.
--
-- The fence of a new row was made before it was there: acquire_floor follows. It is @rowlock_now, and
-- above it for a row that the plain read has found, which the answer uses.
-- name: acquire
INSERT INTO rowlock_locks
       (name, owner, fence, hold_count, attempt, acquire_time, expire_time, ticket, note)
SELECT w.name, w.owner, @rowlock_now + (l.name IS NOT NULL), 1, w.attempt, @rowlock_now,
       @rowlock_now + w.ttl, w.ticket, w.note
  FROM (SELECT j.i,
               UNHEX(j.name)    AS name,
               UNHEX(j.owner)   AS owner,
               UNHEX(j.attempt) AS attempt,
               j.ttl,
               UNHEX(j.note)    AS note,
               j.ticket,
               j.upto
          FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
                   i       INT           PATH '$[7]',
                   name    VARCHAR(510)  CHARACTER SET latin1 PATH '$[0]',
                   owner   VARCHAR(510)  CHARACTER SET latin1 PATH '$[1]',
                   attempt VARCHAR(32)   CHARACTER SET latin1 PATH '$[2]',
                   ttl     BIGINT        PATH '$[4]',
                   note    VARCHAR(2000) CHARACTER SET latin1 PATH '$[6]',
                   ticket  BIGINT        PATH '$[8]',
                   upto    BIGINT        PATH '$[9]')) AS j) AS w
       LEFT JOIN rowlock_locks AS l ON l.name = w.name
 WHERE {primary}
   AND @rowlock_bad = 0
   AND (@rowlock_all
        OR {live l @rowlock_now}
        OR (l.wait_until <= @rowlock_now AND w.ticket = 0)
        OR NOT EXISTS (SELECT 1
                         FROM rowlock_waiters AS q
                        WHERE q.name = w.name
                          AND q.ticket > COALESCE(l.ticket, 0)
                          AND q.ticket < w.upto
                          AND q.expire_time > @rowlock_now))
   AND (l.name IS NULL
        OR (({free l @rowlock_now} OR l.owner = w.owner)
            AND EXISTS (SELECT 1
                          FROM rowlock_locks AS k
                         WHERE k.name = w.name
                           AND ({free k @rowlock_now} OR k.owner = w.owner)
                           AND NOT {stale k w}
                           FOR UPDATE SKIP LOCKED)))
 ORDER BY w.i
ON DUPLICATE KEY UPDATE
       expire_time  = IF(rowlock_locks.hold_count = 0, 0, rowlock_locks.expire_time),
       fence        = IF(rowlock_locks.expire_time <= @rowlock_now,
                         GREATEST(rowlock_locks.fence + 1, VALUES(fence)),
                         rowlock_locks.fence),
       hold_count   = IF(rowlock_locks.expire_time <= @rowlock_now,
                         1,
                         rowlock_locks.hold_count + (rowlock_locks.owner = VALUES(owner)
                                                     AND rowlock_locks.attempt <> VALUES(attempt))),
       acquire_time = IF(rowlock_locks.expire_time <= @rowlock_now,
                         @rowlock_now, rowlock_locks.acquire_time),
       ticket       = IF(rowlock_locks.expire_time <= @rowlock_now,
                         GREATEST(rowlock_locks.ticket, VALUES(ticket)), rowlock_locks.ticket),
       note         = IF(rowlock_locks.expire_time <= @rowlock_now
                         OR (rowlock_locks.owner = VALUES(owner) AND VALUES(note) <> ''),
                         VALUES(note), rowlock_locks.note),
       attempt      = IF(rowlock_locks.expire_time <= @rowlock_now
                         OR rowlock_locks.owner = VALUES(owner),
                         VALUES(attempt), rowlock_locks.attempt),
       owner        = IF(rowlock_locks.expire_time <= @rowlock_now,
                         VALUES(owner), rowlock_locks.owner),
       expire_time  = IF(rowlock_locks.owner = VALUES(owner),
                         GREATEST(rowlock_locks.expire_time, VALUES(expire_time)),
                         rowlock_locks.expire_time);

-- Raises new tenures above the floor, as it is now that their rows are there. Another tenure may have come,
-- gone and been reaped before that, with a later clock. Plain reads, so that no row of others is locked.
-- name: acquire_floor
INSERT INTO rowlock_locks
       (name, owner, fence, hold_count, attempt, acquire_time, expire_time)
SELECT l.name, '', f.fence + 1, 0, '', 0, 0
  FROM rowlock_floor AS f
       STRAIGHT_JOIN JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
           name    VARCHAR(510) CHARACTER SET latin1 PATH '$[0]',
           owner   VARCHAR(510) CHARACTER SET latin1 PATH '$[1]',
           attempt VARCHAR(32)  CHARACTER SET latin1 PATH '$[2]')) AS w
       STRAIGHT_JOIN rowlock_locks AS l ON l.name = UNHEX(w.name)
 WHERE f.id = 1
   AND f.fence >= @rowlock_now
   AND l.owner = UNHEX(w.owner)
   AND l.attempt = UNHEX(w.attempt)
   AND l.acquire_time = @rowlock_now
   AND l.fence <= f.fence
ON DUPLICATE KEY UPDATE
       fence = VALUES(fence);

-- Takes the tickets of what was acquired off the queue.
-- name: acquire_off
SELECT JSON_ARRAYAGG(JSON_ARRAY(w.name, w.ticket)) INTO @rowlock_off
  FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
           name    VARCHAR(510) CHARACTER SET latin1 PATH '$[0]',
           owner   VARCHAR(510) CHARACTER SET latin1 PATH '$[1]',
           attempt VARCHAR(32)  CHARACTER SET latin1 PATH '$[2]',
           ticket  BIGINT       PATH '$[8]')) AS w
       STRAIGHT_JOIN rowlock_locks AS l ON l.name = UNHEX(w.name)
 WHERE w.ticket > 0
   AND l.owner = UNHEX(w.owner)
   AND l.attempt = UNHEX(w.attempt)
   AND l.hold_count > 0;
DELETE q
  FROM JSON_TABLE(COALESCE(@rowlock_off, '[]'), '$[*]' COLUMNS (
           name   VARCHAR(510) CHARACTER SET latin1 PATH '$[0]',
           ticket BIGINT       PATH '$[1]')) AS w
       STRAIGHT_JOIN rowlock_waiters AS q FORCE INDEX (PRIMARY)
          ON q.name = UNHEX(w.name) AND q.ticket = w.ticket;

-- What came of it. queue: of a lock that is free, how long the first one of those who come first lives.
-- free: if it was had, acquire_free would have got it, too.
-- name: acquire_answer
SELECT w.i,
       l.owner = UNHEX(w.owner)                     AS own,
       l.attempt = UNHEX(w.attempt)                 AS mine,
       l.fence,
       l.hold_count,
       l.expire_time - @rowlock_now                 AS remaining,
       l.owner,
       CASE WHEN {live l @rowlock_now} THEN NULL
            WHEN l.wait_until <= @rowlock_now AND w.ticket = 0     THEN NULL
            ELSE (SELECT q.expire_time - @rowlock_now
                    FROM rowlock_waiters AS q
                   WHERE q.name = UNHEX(w.name)
                     AND q.ticket > COALESCE(l.ticket, 0)
                     AND q.ticket < w.upto
                     AND q.expire_time > @rowlock_now
                   ORDER BY q.ticket
                   LIMIT 1) END                     AS queue,
       l.fence <> @rowlock_now AND l.wait_until <= @rowlock_now AS free,
       {stale_hex l w}                              AS stale
  FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
           i       INT          PATH '$[7]',
           name    VARCHAR(510) CHARACTER SET latin1 PATH '$[0]',
           owner   VARCHAR(510) CHARACTER SET latin1 PATH '$[1]',
           attempt VARCHAR(32)  CHARACTER SET latin1 PATH '$[2]',
           ticket  BIGINT       PATH '$[8]',
           upto    BIGINT       PATH '$[9]')) AS w
       LEFT JOIN rowlock_locks AS l ON l.name = UNHEX(w.name);
COMMIT;

-- Extends what is still held, passing over rows that a transaction keeps locked: those are told from
-- the others by an expire_time that is too early. The scalar subquery cannot become a join. The rows
-- exist and are locked, so nothing is ever inserted.
-- name: renew
INSERT INTO rowlock_locks
       (name, owner, fence, hold_count, attempt, acquire_time, expire_time, note)
SELECT l.name, l.owner, l.fence, 0, l.attempt, 0, @rowlock_now + w.ttl, ''
  FROM (SELECT UNHEX(j.name)  AS name,
               UNHEX(j.owner) AS owner,
               j.fence,
               j.ttl
          FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
                   name  VARCHAR(510) CHARACTER SET latin1 PATH '$[0]',
                   owner VARCHAR(510) CHARACTER SET latin1 PATH '$[1]',
                   fence BIGINT       PATH '$[3]',
                   ttl   BIGINT       PATH '$[4]')) AS j) AS w
       STRAIGHT_JOIN rowlock_locks AS l ON l.name = w.name
 WHERE {primary}
   AND l.owner = w.owner
   AND l.fence = w.fence
   AND {live l @rowlock_now}
   AND 1 = (SELECT 1
              FROM rowlock_locks AS k
             WHERE k.name = w.name
               AND k.owner = w.owner
               AND k.fence = w.fence
               AND {live k @rowlock_now}
               FOR UPDATE SKIP LOCKED)
ON DUPLICATE KEY UPDATE
       expire_time = GREATEST(rowlock_locks.expire_time, VALUES(expire_time));
SELECT w.i,
       l.expire_time >= @rowlock_now + w.ttl        AS renewed,
       l.hold_count,
       l.expire_time - @rowlock_now                 AS remaining
  FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
           i     INT          PATH '$[7]',
           name  VARCHAR(510) CHARACTER SET latin1 PATH '$[0]',
           owner VARCHAR(510) CHARACTER SET latin1 PATH '$[1]',
           fence BIGINT       PATH '$[3]',
           ttl   BIGINT       PATH '$[4]')) AS w
       STRAIGHT_JOIN rowlock_locks AS l ON l.name = UNHEX(w.name)
 WHERE l.owner = UNHEX(w.owner)
   AND l.fence = w.fence
   AND {live l @rowlock_now};
COMMIT;

-- Before a release that has not the time to wait: locks the rows, or fails at once (error 3572, on
-- MariaDB 1205) if somebody else has.
-- name: release_look
SELECT COUNT(*) INTO @rowlock_bad
  FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
           name VARCHAR(510) CHARACTER SET latin1 PATH '$[0]')) AS w
 WHERE (SELECT 1
          FROM rowlock_locks AS k
         WHERE k.name = UNHEX(w.name)
           FOR UPDATE NOWAIT) IS NULL;

-- ? name
-- name: release_look_one
SELECT COUNT(*) INTO @rowlock_bad
  FROM rowlock_locks AS k
 WHERE k.name = ?
   FOR UPDATE NOWAIT;

-- Gives holds back, where the row has the attempt that was seen last ('' for any); where it has another
-- one, that is answered. This one waits for a locked row, a second of the session's: a release has no
-- other answer for it. The rows exist and are locked, so nothing is ever inserted.
-- name: release
INSERT INTO rowlock_locks
       (name, owner, fence, hold_count, attempt, acquire_time, expire_time, note)
SELECT l.name, l.owner, l.fence, 0, w.attempt, 0, 0, ''
  FROM (SELECT UNHEX(j.name)    AS name,
               UNHEX(j.owner)   AS owner,
               UNHEX(j.attempt) AS attempt,
               UNHEX(j.seen)    AS seen,
               j.fence
          FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
                   name    VARCHAR(510) CHARACTER SET latin1 PATH '$[0]',
                   owner   VARCHAR(510) CHARACTER SET latin1 PATH '$[1]',
                   attempt VARCHAR(32)  CHARACTER SET latin1 PATH '$[2]',
                   fence   BIGINT       PATH '$[3]',
                   seen    VARCHAR(32)  CHARACTER SET latin1 PATH '$[5]')) AS j) AS w
       STRAIGHT_JOIN rowlock_locks AS l ON l.name = w.name
 WHERE l.owner = w.owner
   AND l.fence = w.fence
   AND 1 = (SELECT 1
              FROM rowlock_locks AS k
             WHERE k.name = w.name
               AND k.owner = w.owner
               AND k.fence = w.fence
               AND k.attempt <> w.attempt
               AND (w.seen = '' OR k.attempt = w.seen)
               AND {live k @rowlock_now}
               FOR UPDATE)
ON DUPLICATE KEY UPDATE
       attempt     = VALUES(attempt),
       hold_count  = rowlock_locks.hold_count - 1,
       expire_time = IF(rowlock_locks.hold_count = 0, @rowlock_now, rowlock_locks.expire_time);
SELECT w.i,
       l.hold_count,
       l.attempt = UNHEX(w.attempt)                 AS done,
       l.attempt
  FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
           i       INT          PATH '$[7]',
           name    VARCHAR(510) CHARACTER SET latin1 PATH '$[0]',
           owner   VARCHAR(510) CHARACTER SET latin1 PATH '$[1]',
           attempt VARCHAR(32)  CHARACTER SET latin1 PATH '$[2]',
           fence   BIGINT       PATH '$[3]')) AS w
       STRAIGHT_JOIN rowlock_locks AS l ON l.name = UNHEX(w.name)
 WHERE l.owner = UNHEX(w.owner)
   AND l.fence = w.fence
   AND (l.attempt = UNHEX(w.attempt) OR {live l @rowlock_now});
COMMIT;

-- The usual case of one lock, in one statement that is its own transaction: takes a row that is there, free,
-- not waited for and not locked. Whatever else it may be, the statement changes nothing and waits for
-- nothing, and the driver goes on with those above or below; that is so for its own repetition, too, since
-- the row lives. LAST_INSERT_ID(x) is x, and tells it to the client together with the number of changed
-- rows, so that nothing need be read. The row exists and is locked, so nothing is ever inserted. There is
-- no plain read before, which would take a fifth longer: a row that is held is locked for the moment, so
-- the driver sends this only where it expects a free one.
-- ? ttl, ? name, ? owner, ? attempt, ? attempt, ? owner, ? attempt, ? note
-- name: acquire_free
INSERT INTO rowlock_locks
       (name, owner, fence, hold_count, attempt, acquire_time, expire_time)
SELECT l.name, '', 0, 0, '',
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + ?
  FROM rowlock_locks AS l
 WHERE {primary}
   AND l.name = ?
   AND {free l TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))}
   AND l.wait_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
   AND NOT {stale_literal l}
   FOR UPDATE SKIP LOCKED
ON DUPLICATE KEY UPDATE
       fence        = LAST_INSERT_ID(GREATEST(rowlock_locks.fence + 1, VALUES(acquire_time))),
       owner        = ?,
       hold_count   = 1,
       attempt      = ?,
       note         = ?,
       acquire_time = VALUES(acquire_time),
       expire_time  = VALUES(expire_time);

-- The same on MariaDB, which can be told not to wait: without a SELECT from the table that is written it
-- takes a tenth less. A locked row is error 1205 then. Assignments go from left to right.
-- ? owner, ? attempt, ? note, ? ttl, ? name, ? owner, ? attempt, ? attempt
-- name: acquire_free_update
UPDATE rowlock_locks AS l
   SET l.acquire_time = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
       l.fence        = LAST_INSERT_ID(GREATEST(l.fence + 1, l.acquire_time)),
       l.owner        = ?,
       l.hold_count   = 1,
       l.attempt      = ?,
       l.note         = ?,
       l.expire_time  = l.acquire_time + ?
 WHERE {primary}
   AND l.name = ?
   AND {free l TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))}
   AND l.wait_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
   AND NOT {stale_literal l};

-- The same where the last lock was marked as waited for: a mark lasts for longer than a wait, so the tickets are
-- looked at, when the row is locked. Not above, since a condition costs time though it is not met.
-- ? ttl, ? name, ? owner, ? attempt, ? attempt, ? name, ? tickets below this one come first, ? owner,
-- ? attempt, ? note
-- name: acquire_marked
INSERT INTO rowlock_locks
       (name, owner, fence, hold_count, attempt, acquire_time, expire_time)
SELECT l.name, '', 0, 0, '',
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + ?
  FROM rowlock_locks AS l
 WHERE {primary}
   AND l.name = ?
   AND {free l TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))}
   AND NOT {stale_literal l}
   AND (SELECT 1
          FROM rowlock_waiters AS q
         WHERE q.name = ?
           AND q.ticket > l.ticket
           AND q.ticket < ?
           AND q.expire_time > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
         LIMIT 1) IS NULL
   FOR UPDATE SKIP LOCKED
ON DUPLICATE KEY UPDATE
       fence        = LAST_INSERT_ID(GREATEST(rowlock_locks.fence + 1, VALUES(acquire_time))),
       owner        = ?,
       hold_count   = 1,
       attempt      = ?,
       note         = ?,
       acquire_time = VALUES(acquire_time),
       expire_time  = VALUES(expire_time);

-- ? owner, ? attempt, ? note, ? ttl, ? name, ? owner, ? attempt, ? attempt, ? name, ? tickets below this
-- one come first
-- name: acquire_marked_update
UPDATE rowlock_locks AS l
   SET l.acquire_time = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
       l.fence        = LAST_INSERT_ID(GREATEST(l.fence + 1, l.acquire_time)),
       l.owner        = ?,
       l.hold_count   = 1,
       l.attempt      = ?,
       l.note         = ?,
       l.expire_time  = l.acquire_time + ?
 WHERE {primary}
   AND l.name = ?
   AND {free l TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))}
   AND NOT {stale_literal l}
   AND (SELECT 1
          FROM rowlock_waiters AS q
         WHERE q.name = ?
           AND q.ticket > l.ticket
           AND q.ticket < ?
           AND q.expire_time > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
         LIMIT 1) IS NULL;

-- Before an UPDATE, on MariaDB: zero seconds, which MySQL does not know.
-- name: no_wait
SET STATEMENT innodb_lock_wait_timeout = 0 FOR

-- The release of one lock, with the conditions of the one above. It waits for a locked row, too. Tells
-- how many holds there were. ? attempt, ? name, ? owner, ? fence, ? attempt, ? seen, ? seen
-- name: release_one
UPDATE rowlock_locks AS l
   SET l.expire_time = IF(l.hold_count = 1,
                          TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), l.expire_time),
       l.hold_count  = LAST_INSERT_ID(l.hold_count) - 1,
       l.attempt     = ?
 WHERE l.name = ?
   AND l.owner = ?
   AND l.fence = ?
   AND l.attempt <> ?
   AND (? = '' OR l.attempt = ?)
   AND {live l TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))};

-- name: commit
COMMIT;

-- Behind the COMMIT of a grant that took several statements, between which read_only can be set: was it
-- still a primary? Error 1690 again, with another number: it is committed and must not be believed.
-- name: granted
SET @rowlock_bad = 9223372036854775806 + 2 * (CAST(@@global.read_only AS CHAR) NOT IN ('0', 'OFF'));

-- The usual cases of several locks, for all of them at once. The rows of a batch stand between row_first,
-- row_next and row_last, in place of (?), sorted by name: MariaDB reads a list of values in an eighth less
-- time than the same as a union, which MySQL needs before 8.0.19.
-- name: row_first
/*M!100600 VALUES ( */ /*!80000 SELECT */

-- name: row_next
/*M!100600 ), ( */ /*!80000 UNION ALL SELECT */

-- name: row_last
/*M!100600 ) */

-- Takes what acquire_free would take of each, and leaves the rest alone like that. Each row is found, and
-- locked, by its key, in the order of w. The clock is read here and not put aside before: each statement of
-- a packet is answered by itself, which costs more than reading it several times. Answers which were taken;
-- MySQL by the statement behind this one. ? rows of name, owner, attempt, ttl, note
-- name: acquire_many
INSERT INTO rowlock_locks
       (name, owner, fence, hold_count, attempt, acquire_time, expire_time, note)
  WITH w (name, owner, attempt, ttl, note) AS (?)
SELECT w.name, w.owner, 0, 1, w.attempt,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + w.ttl,
       w.note
  FROM w
       STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY)
          ON l.name = w.name
 WHERE {primary}
   AND {free l TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))}
   AND l.wait_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
   AND NOT {stale l w}
   FOR UPDATE SKIP LOCKED
ON DUPLICATE KEY UPDATE
       fence        = GREATEST(rowlock_locks.fence + 1, VALUES(acquire_time)),
       owner        = VALUES(owner),
       hold_count   = 1,
       attempt      = VALUES(attempt),
       note         = VALUES(note),
       acquire_time = VALUES(acquire_time),
       expire_time  = VALUES(expire_time)
/*M!100600 RETURNING name, fence, expire_time - acquire_time */;

-- That includes what the same attempt took before. ? the same rows
-- name: acquire_many_answer
  WITH w (name, owner, attempt, ttl, note) AS (?)
SELECT l.name,
       l.fence,
       l.expire_time - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS remaining
  FROM w
       STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY)
          ON l.name = w.name
 WHERE l.owner = w.owner
   AND l.attempt = w.attempt
   AND l.hold_count = 1
   AND l.expire_time > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));

-- The same for releases, with the conditions of release_one. It goes on with one of the two below, or
-- waits for a locked row, and ends with release_many_end. ? rows of name, owner, fence, attempt, seen
-- name: release_many
INSERT INTO rowlock_locks
       (name, owner, fence, hold_count, attempt, acquire_time, expire_time)
  WITH w (name, owner, fence, attempt, seen) AS (?)
SELECT w.name, '', 0, 0, w.attempt, 0,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
  FROM w
       STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY)
          ON l.name = w.name
 WHERE l.owner = w.owner
   AND l.fence = w.fence
   AND l.attempt <> w.attempt
   AND (w.seen = '' OR l.attempt = w.seen)
   AND {live l TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))}
   FOR UPDATE

-- A locked row ends the statement at once, as in release_look.
-- name: release_nowait
NOWAIT

-- A locked row is left alone.
-- name: release_skip
SKIP LOCKED

-- name: release_many_end
ON DUPLICATE KEY UPDATE
       attempt     = VALUES(attempt),
       hold_count  = rowlock_locks.hold_count - 1,
       expire_time = IF(rowlock_locks.hold_count = 0, VALUES(expire_time), rowlock_locks.expire_time)
/*M!100600 RETURNING name, hold_count */;

-- ? the same rows
-- name: release_many_answer
  WITH w (name, owner, fence, attempt, seen) AS (?)
SELECT l.name, l.hold_count
  FROM w
       STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY)
          ON l.name = w.name
 WHERE l.owner = w.owner
   AND l.fence = w.fence
   AND l.attempt = w.attempt;

-- Both at once, on MariaDB, whose RETURNING answers for both: one statement, which is a transaction by
-- itself, instead of four. Last holds only. A locked row is left alone. The same name twice is no harm: a
-- row is either held or free.
-- ? rows of name, owner, attempt, ttl, note, fence, seen; a release has no ttl and no note, an acquire no
-- fence and nothing seen
-- name: exchange
INSERT INTO rowlock_locks
       (name, owner, fence, hold_count, attempt, acquire_time, expire_time, note)
  WITH w (name, owner, attempt, ttl, note, fence, seen) AS (?)
SELECT w.name, w.owner, w.fence, IF(w.ttl = 0, 0, 1), w.attempt,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + w.ttl,
       w.note
  FROM w
       STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY)
          ON l.name = w.name
 WHERE {primary}
   AND IF(w.ttl = 0,
          l.owner = w.owner
          AND l.fence = w.fence
          AND l.attempt <> w.attempt
          AND (w.seen = '' OR l.attempt = w.seen)
          AND l.expire_time > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
          AND l.hold_count = 1,
          {free l TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))}
          AND l.wait_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
          AND NOT {stale l w})
   FOR UPDATE SKIP LOCKED
ON DUPLICATE KEY UPDATE
       fence        = IF(VALUES(hold_count) = 0, rowlock_locks.fence,
                         GREATEST(rowlock_locks.fence + 1, VALUES(acquire_time))),
       owner        = VALUES(owner),
       hold_count   = VALUES(hold_count),
       attempt      = VALUES(attempt),
       note         = IF(VALUES(hold_count) = 0, rowlock_locks.note, VALUES(note)),
       acquire_time = IF(VALUES(hold_count) = 0, rowlock_locks.acquire_time, VALUES(acquire_time)),
       expire_time  = VALUES(expire_time)
/*M!100600 RETURNING name, fence, expire_time - acquire_time, hold_count */;

-- The first of its rows where it is prepared, for the sake of the columns' types: there is no such tenure.
-- The others are (?, ?, ...), which have none.
-- name: exchange_types
VALUES (REPEAT(x'00', 255), REPEAT(x'00', 255), REPEAT(x'00', 16), 0 * 9223372036854775807,
        REPEAT(x'00', 1000), -9223372036854775807, REPEAT(x'00', 16))

-- The last hold of a lock becomes another owner's first one, if nobody else waits for it: a release and an
-- acquire in one. Assignments go from left to right. A row with a mark is looked at more closely, since a
-- mark lasts for longer than a wait. Where the bell of who releases is given up with it, the row's ticket,
-- which names it, is raised, so that nobody waits for that.
-- ? owner, ? attempt, ? note, ? ttl of who acquires, ? 1 with a bell, else 0,
-- ? name, ? owner, ? fence, ? attempt, ? seen, ? seen of who releases
-- name: hand_over
UPDATE rowlock_locks AS l
   SET l.acquire_time = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
       l.fence        = LAST_INSERT_ID(GREATEST(l.fence + 1, l.acquire_time)),
       l.owner        = ?,
       l.attempt      = ?,
       l.note         = ?,
       l.expire_time  = l.acquire_time + ?,
       l.ticket       = l.ticket + ?
 WHERE {primary}
   AND l.name = ?
   AND l.owner = ?
   AND l.fence = ?
   AND l.attempt <> ?
   AND (? = '' OR l.attempt = ?)
   AND l.hold_count = 1
   AND l.expire_time > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
   AND (l.wait_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
        OR NOT EXISTS (
               SELECT 1
                 FROM rowlock_waiters AS q
                WHERE q.name = l.name
                  AND q.ticket > l.ticket
                  AND q.expire_time > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))));

-- Behind it, if it was done. ? bell
-- name: hand_over_ring
DO IF(ROW_COUNT() > 0, RELEASE_LOCK(?), 0);

-- Where the last try found a lock that is held: is this one, too? The columns of acquire_answer.
-- ? owner, ? name
-- name: acquire_look
SELECT 0,
       l.owner = ?                                  AS own,
       0                                            AS mine,
       l.fence,
       l.hold_count,
       l.expire_time - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS remaining,
       l.owner,
       NULL                                         AS queue
  FROM rowlock_locks AS l
 WHERE l.name = ?;

-- The same where it was marked as waited for: a lock that is free may be others' to take.
-- ? owner, ? tickets below this one come first, ? name
-- name: acquire_look_marked
SELECT 0,
       l.owner = ?                                  AS own,
       0                                            AS mine,
       l.fence,
       l.hold_count,
       l.expire_time - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS remaining,
       l.owner,
       (SELECT q.expire_time - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
          FROM rowlock_waiters AS q
         WHERE q.name = l.name
           AND q.ticket > l.ticket
           AND q.ticket < ?
           AND q.expire_time > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
         ORDER BY q.ticket
         LIMIT 1)                                   AS queue
  FROM rowlock_locks AS l
 WHERE l.name = ?;

-- A single lock, whatever its row is like, without JSON and the temporary tables that reading it takes;
-- @rowlock_closed would mean no new tenure, whoever waits.
-- ? name, ? owner, ? attempt, ? ttl, ? note, ? ticket, ? tickets below this one come first
-- name: begin_one
SET @rowlock_now     = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
    @rowlock_name    = ?,
    @rowlock_owner   = ?,
    @rowlock_attempt = ?,
    @rowlock_ttl     = ?,
    @rowlock_note    = ?,
    @rowlock_ticket  = ?,
    @rowlock_upto    = ?,
    @rowlock_closed  = 0;
START TRANSACTION;

-- @rowlock_bad: 0, it can be had; 1, not now; 2, if nobody who waits comes first; NULL, the same, and
-- the row is absent.
-- name: acquire_one
SELECT MAX(CASE WHEN {live l @rowlock_now} AND l.owner <> @rowlock_owner
                THEN 1
                WHEN NOT EXISTS (SELECT 1
                                   FROM rowlock_locks AS k
                                  WHERE k.name = @rowlock_name
                                    AND ({free k @rowlock_now} OR k.owner = @rowlock_owner)
                                    AND NOT ({stale_one k}
                                             AND (@rowlock_ticket = 0 OR {live k @rowlock_now}))
                                    FOR UPDATE SKIP LOCKED)
                THEN 1
                WHEN {live l @rowlock_now}
                THEN 0
                WHEN l.wait_until <= @rowlock_now AND @rowlock_ticket = 0
                THEN 0
                ELSE 2 END),
       MAX(l.ticket)
  INTO @rowlock_bad, @rowlock_last
  FROM rowlock_locks AS l
 WHERE l.name = @rowlock_name;
INSERT INTO rowlock_locks
       (name, owner, fence, hold_count, attempt, acquire_time, expire_time, ticket, note)
SELECT @rowlock_name, @rowlock_owner, @rowlock_now, 1, @rowlock_attempt, @rowlock_now,
       @rowlock_now + @rowlock_ttl, @rowlock_ticket, @rowlock_note
  FROM DUAL
 WHERE {primary}
   AND (@rowlock_bad = 0
        OR (COALESCE(@rowlock_bad, 2) = 2
            AND @rowlock_closed = 0
            AND NOT EXISTS (SELECT 1
                              FROM rowlock_waiters AS q
                             WHERE q.name = @rowlock_name
                               AND q.ticket > COALESCE(@rowlock_last, 0)
                               AND q.ticket < @rowlock_upto
                               AND q.expire_time > @rowlock_now)))
ON DUPLICATE KEY UPDATE
       expire_time  = IF(rowlock_locks.hold_count = 0, 0, rowlock_locks.expire_time),
       fence        = IF(rowlock_locks.expire_time <= @rowlock_now,
                         GREATEST(rowlock_locks.fence + 1, @rowlock_now),
                         rowlock_locks.fence),
       hold_count   = IF(rowlock_locks.expire_time <= @rowlock_now,
                         1,
                         rowlock_locks.hold_count + (rowlock_locks.owner = VALUES(owner)
                                                     AND rowlock_locks.attempt <> VALUES(attempt))),
       acquire_time = IF(rowlock_locks.expire_time <= @rowlock_now,
                         @rowlock_now, rowlock_locks.acquire_time),
       ticket       = IF(rowlock_locks.expire_time <= @rowlock_now,
                         GREATEST(rowlock_locks.ticket, VALUES(ticket)), rowlock_locks.ticket),
       note         = IF(rowlock_locks.expire_time <= @rowlock_now
                         OR (rowlock_locks.owner = VALUES(owner) AND VALUES(note) <> ''),
                         VALUES(note), rowlock_locks.note),
       attempt      = IF(rowlock_locks.expire_time <= @rowlock_now
                         OR rowlock_locks.owner = VALUES(owner),
                         VALUES(attempt), rowlock_locks.attempt),
       owner        = IF(rowlock_locks.expire_time <= @rowlock_now,
                         VALUES(owner), rowlock_locks.owner),
       expire_time  = IF(rowlock_locks.owner = VALUES(owner),
                         GREATEST(rowlock_locks.expire_time, VALUES(expire_time)),
                         rowlock_locks.expire_time);

-- As acquire_floor, for a row that was absent.
-- name: acquire_one_floor
INSERT INTO rowlock_locks
       (name, owner, fence, hold_count, attempt, acquire_time, expire_time)
SELECT l.name, '', f.fence + 1, 0, '', 0, 0
  FROM rowlock_floor AS f
       STRAIGHT_JOIN rowlock_locks AS l ON l.name = @rowlock_name
 WHERE @rowlock_bad IS NULL
   AND f.id = 1
   AND f.fence >= @rowlock_now
   AND l.owner = @rowlock_owner
   AND l.attempt = @rowlock_attempt
   AND l.acquire_time = @rowlock_now
   AND l.fence <= f.fence
ON DUPLICATE KEY UPDATE
       fence = VALUES(fence);

-- Takes the ticket off the queue, if something came of it.
-- name: acquire_one_off
DELETE FROM rowlock_waiters
 WHERE name = @rowlock_name
   AND ticket = IF(ROW_COUNT() > 0, @rowlock_ticket, NULL);

-- name: acquire_one_answer
SELECT 0,
       l.owner = @rowlock_owner                     AS own,
       l.attempt = @rowlock_attempt                 AS mine,
       l.fence,
       l.hold_count,
       l.expire_time - @rowlock_now                 AS remaining,
       l.owner,
       NULL                                         AS queue,
       @rowlock_bad = 0                             AS free,
       @rowlock_ticket = 0 AND {stale_one l}        AS stale,
       @rowlock_bad = 2                             AS in_line
  FROM rowlock_locks AS l
 WHERE l.name = @rowlock_name;
COMMIT;

-- Afterwards, if the row is free or absent, and was not taken: how long the first one of those who come
-- first lives.
-- name: acquire_one_first
SELECT q.expire_time - @rowlock_now
  FROM rowlock_waiters AS q
 WHERE q.name = @rowlock_name
   AND q.ticket > COALESCE(@rowlock_last, 0)
   AND q.ticket < @rowlock_upto
   AND q.expire_time > @rowlock_now
 ORDER BY q.ticket
 LIMIT 1;

-- The queue. A ticket is a row of rowlock_waiters; the lower one comes first. One that is not above
-- rowlock_locks.ticket, which the lock was last taken by, is past: so every search has a lower end. A
-- bell is a named lock of the server's, whose name is @rowlock_bell (which tells the database, the
-- prefix and the lock) with the ticket behind it. It is had before the ticket can be seen, and is given
-- back after the COMMIT, so whoever gets it and still sees the ticket in the queue knows that its connection
-- is gone.
--
-- Rows of rowlock_locks are locked before those of rowlock_waiters, and never waited for here. Of the
-- latter only the dead, the heard and one's own are ever waited for, in the order of the key.
--
-- ? bell, with its ticket
-- name: ring
DO RELEASE_LOCK(?);

-- name: bell
SET @rowlock_bell = ?;

-- name: life
SET @rowlock_life = ?;

-- A connection has one bell: another one that it may still have, of a ticket that was lost, is rung.
-- Marks the lock's row, unless that reaches far enough already or somebody has it locked; then come the
-- ticket, its bell (@rowlock_bell empty: none) and its row. Two tickets of the same microsecond are the
-- same, and the second INSERT fails: the driver asks again. At last the lowest ticket goes if it is dead;
-- one for each that comes is enough.
-- name: enqueue_one
DO IF(@rowlock_bell = '', 0, RELEASE_ALL_LOCKS());
SELECT MAX((SELECT k.name
              FROM rowlock_locks AS k
             WHERE k.name = l.name
               FOR UPDATE SKIP LOCKED)) INTO @rowlock_mark
  FROM rowlock_locks AS l
 WHERE l.name = @rowlock_name
   AND l.wait_until < @rowlock_now + @rowlock_life;
UPDATE rowlock_locks AS l
   SET l.wait_until = @rowlock_now + 2 * @rowlock_life
 WHERE l.name = @rowlock_mark;
SELECT GREATEST(@rowlock_now,
                COALESCE((SELECT l.ticket
                            FROM rowlock_locks AS l
                           WHERE l.name = @rowlock_name), 0) + 1,
                COALESCE((SELECT MAX(q.ticket)
                            FROM rowlock_waiters AS q
                           WHERE q.name = @rowlock_name), 0) + 1) INTO @rowlock_ticket;
SET @rowlock_has = IF(@rowlock_bell = '',
                        0, COALESCE(GET_LOCK(CONCAT(@rowlock_bell, @rowlock_ticket), 0), 0));
INSERT INTO rowlock_waiters
       (name, ticket, owner, since_time, expire_time, has_bell)
VALUES (@rowlock_name, @rowlock_ticket, @rowlock_owner, @rowlock_now, @rowlock_now + @rowlock_life,
        @rowlock_has);
SELECT MAX(IF(d.expire_time <= @rowlock_now, d.ticket, NULL)) INTO @rowlock_dead
  FROM (SELECT q.ticket, q.expire_time
          FROM rowlock_waiters AS q
         WHERE q.name = @rowlock_name
         ORDER BY q.ticket
         LIMIT 1) AS d;
DELETE FROM rowlock_waiters
 WHERE name = @rowlock_name
   AND ticket = @rowlock_dead;

-- The place of @rowlock_ticket: the columns of acquire_answer, of which `queue` is the life of the
-- ticket right before; then that ticket and whether it has a bell, the one the lock was last taken by and
-- whether its bell is with somebody, the life of the ticket itself (NULL: it is not there, or past, or the
-- request is late), its number, whether it got a bell, and whether the row could not be marked.
-- name: place_one
SELECT 0,
       l.owner = @rowlock_owner                     AS own,
       l.attempt = @rowlock_attempt                 AS mine,
       l.fence,
       l.hold_count,
       l.expire_time - @rowlock_now                 AS remaining,
       l.owner,
       b.expire_time - @rowlock_now                 AS queue,
       b.ticket,
       b.has_bell,
       l.ticket                                     AS last,
       @rowlock_bell <> ''
       AND IS_FREE_LOCK(CONCAT(@rowlock_bell, COALESCE(l.ticket, 0))) = 0 AS has_last,
       IF({stale_one l} AND {live l @rowlock_now},
          NULL, q.expire_time - @rowlock_now)       AS life,
       @rowlock_ticket,
       @rowlock_has,
       l.wait_until < @rowlock_now + @rowlock_life  AS unmarked
  FROM (SELECT 1) AS one
       LEFT JOIN rowlock_locks AS l ON l.name = @rowlock_name
       LEFT JOIN rowlock_waiters AS q
         ON q.name = @rowlock_name
        AND q.ticket = @rowlock_ticket
        AND q.ticket > COALESCE(l.ticket, 0)
       LEFT JOIN rowlock_waiters AS b
         ON b.name = @rowlock_name
        AND b.ticket = (SELECT p.ticket
                          FROM rowlock_waiters AS p
                         WHERE p.name = @rowlock_name
                           AND p.ticket > COALESCE(l.ticket, 0)
                           AND p.ticket < @rowlock_ticket
                           AND p.expire_time > @rowlock_now
                         ORDER BY p.ticket DESC
                         LIMIT 1);
COMMIT;

-- The same on a connection whose last ticket was served by turn_free, which has left it behind: it becomes
-- the new one, with a bell, if the lock's row has a mark that need not be renewed. So no row of rowlock_locks
-- is locked, and this is a transaction by itself. Changes nothing otherwise: then come those above. Whether
-- the old ticket is past is looked at once more. The scalar subqueries cannot become joins, which would lock
-- what they read; the innermost table is read before anything is written, as MySQL wants it. Assignments go
-- from left to right; the ticket is told by LAST_INSERT_ID.
-- ? name, ? name, ? owner, ? life, ? bell, ? bell, ? name, ? old ticket, ? name, ? old ticket, ? life
-- name: enqueue_again
UPDATE rowlock_waiters AS w
   SET w.ticket      = LAST_INSERT_ID(GREATEST(
                           TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
                           (SELECT l.ticket
                              FROM rowlock_locks AS l
                             WHERE l.name = ?) + 1,
                           (SELECT m.ticket
                              FROM (SELECT MAX(q.ticket) AS ticket
                                      FROM rowlock_waiters AS q
                                     WHERE q.name = ?) AS m) + 1)),
       w.owner       = ?,
       w.since_time  = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
       w.expire_time = w.since_time + ?,
       w.has_bell    = IF(? = '', 0, COALESCE(GET_LOCK(CONCAT(?, w.ticket), 0), 0))
 WHERE w.name = ?
   AND w.ticket = ?
   AND 1 = (SELECT 1
              FROM rowlock_locks AS l
             WHERE l.name = ?
               AND l.ticket >= ?
               AND l.wait_until >= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + ?);

-- Behind it: the columns of place_one. ? owner, ? bell, ? bell, ? old ticket, ? name
-- name: place_again
SELECT 0,
       l.owner = ?                                  AS own,
       0                                            AS mine,
       l.fence,
       l.hold_count,
       l.expire_time - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS remaining,
       l.owner,
       b.expire_time - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS queue,
       b.ticket,
       b.has_bell,
       l.ticket                                     AS last,
       b.ticket IS NULL
       AND ? <> ''
       AND IS_FREE_LOCK(CONCAT(?, l.ticket)) = 0    AS has_last,
       q.expire_time - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS life,
       q.ticket,
       q.has_bell,
       0                                            AS unmarked
  FROM rowlock_waiters AS q
       STRAIGHT_JOIN rowlock_locks AS l ON l.name = q.name
       LEFT JOIN rowlock_waiters AS b
         ON b.name = q.name
        AND b.ticket = (SELECT p.ticket
                          FROM rowlock_waiters AS p
                         WHERE p.name = q.name
                           AND p.ticket > ?
                           AND p.ticket > l.ticket
                           AND p.ticket < q.ticket
                           AND p.expire_time > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
                         ORDER BY p.ticket DESC
                         LIMIT 1)
 WHERE q.name = ?
   AND q.ticket = LAST_INSERT_ID();

-- The same for a batch: one ticket in the queues of several names. There are no bells: nobody could wait
-- for several.
-- name: enqueue
SELECT GREATEST(@rowlock_now,
                MAX(COALESCE(l.ticket, 0)) + 1,
                MAX(COALESCE((SELECT MAX(q.ticket)
                                FROM rowlock_waiters AS q
                               WHERE q.name = UNHEX(w.name)), 0)) + 1) INTO @rowlock_ticket
  FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
           name VARCHAR(510) CHARACTER SET latin1 PATH '$[0]')) AS w
       LEFT JOIN rowlock_locks AS l ON l.name = UNHEX(w.name);
INSERT INTO rowlock_waiters
       (name, ticket, owner, since_time, expire_time, has_bell)
SELECT UNHEX(w.name), @rowlock_ticket, UNHEX(w.owner), @rowlock_now, @rowlock_now + @rowlock_life, 0
  FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
           i     INT          PATH '$[7]',
           name  VARCHAR(510) CHARACTER SET latin1 PATH '$[0]',
           owner VARCHAR(510) CHARACTER SET latin1 PATH '$[1]')) AS w
 ORDER BY w.i;
SELECT JSON_ARRAYAGG(JSON_ARRAY(w.name, q.ticket)) INTO @rowlock_off
  FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
           name VARCHAR(510) CHARACTER SET latin1 PATH '$[0]')) AS w
       STRAIGHT_JOIN rowlock_waiters AS q
          ON q.name = UNHEX(w.name)
         AND q.ticket = (SELECT MIN(p.ticket)
                           FROM rowlock_waiters AS p
                          WHERE p.name = UNHEX(w.name))
 WHERE q.expire_time <= @rowlock_now;
DELETE q
  FROM JSON_TABLE(COALESCE(@rowlock_off, '[]'), '$[*]' COLUMNS (
           name   VARCHAR(510) CHARACTER SET latin1 PATH '$[0]',
           ticket BIGINT       PATH '$[1]')) AS w
       STRAIGHT_JOIN rowlock_waiters AS q FORCE INDEX (PRIMARY)
          ON q.name = UNHEX(w.name) AND q.ticket = w.ticket;

-- name: place
SELECT w.i,
       l.owner = UNHEX(w.owner)                     AS own,
       0                                            AS mine,
       l.fence,
       l.hold_count,
       l.expire_time - @rowlock_now                 AS remaining,
       l.owner,
       b.expire_time - @rowlock_now                 AS queue,
       b.ticket,
       b.has_bell,
       l.ticket                                     AS last,
       0                                            AS has_last,
       @rowlock_life                                AS life,
       @rowlock_ticket,
       0                                            AS heard,
       l.wait_until < @rowlock_now + @rowlock_life  AS unmarked
  FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
           i     INT          PATH '$[7]',
           name  VARCHAR(510) CHARACTER SET latin1 PATH '$[0]',
           owner VARCHAR(510) CHARACTER SET latin1 PATH '$[1]')) AS w
       LEFT JOIN rowlock_locks AS l ON l.name = UNHEX(w.name)
       LEFT JOIN rowlock_waiters AS b
         ON b.name = UNHEX(w.name)
        AND b.ticket = (SELECT p.ticket
                          FROM rowlock_waiters AS p
                         WHERE p.name = UNHEX(w.name)
                           AND p.ticket > COALESCE(l.ticket, 0)
                           AND p.ticket < @rowlock_ticket
                           AND p.expire_time > @rowlock_now
                         ORDER BY p.ticket DESC
                         LIMIT 1);
COMMIT;

-- Waits for a bell: a packet by itself, so that nothing is done in the name of a process that died in the
-- meantime. Fractions of a second count on MariaDB; MySQL gets the next whole one, and its hint ends the
-- statement before that (error 3024). ? milliseconds, ? bell, ? seconds
-- name: hear
SELECT /*+ MAX_EXECUTION_TIME(?) */ GET_LOCK(?, ?);

-- Where a chain of such waits is too long: who has a bell so many places ahead, to be waited for instead.
-- ? name, ? name, ? ticket, ? how many places less one
-- name: leap
SELECT q.ticket
  FROM rowlock_waiters AS q
 WHERE q.name = ?
   AND q.ticket > COALESCE((SELECT l.ticket
                              FROM rowlock_locks AS l
                             WHERE l.name = ?), 0)
   AND q.ticket < ?
   AND q.expire_time > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
   AND q.has_bell <> 0
 ORDER BY q.ticket DESC
 LIMIT 1 OFFSET ?;

-- The usual end of a wait, in one statement as acquire_free: the row is free and not locked, and of those who
-- live the ticket is the first one above the row's. It stays behind, past as it is now: enqueue_again uses it
-- again, or it is reaped. The second number is the ticket whose bell was heard, 0: none. Unless that was
-- served, there is more to it; and if it was, nothing below it need be searched. The tickets are read when
-- the row is locked, without locking any.
-- ? ttl, ? name, ? heard, ? name, ? heard, ? ticket, ? ticket, ? owner, ? attempt, ? note, ? ticket
-- name: turn_free
INSERT INTO rowlock_locks
       (name, owner, fence, hold_count, attempt, acquire_time, expire_time)
SELECT l.name, '', 0, 0, '',
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + ?
  FROM rowlock_locks AS l
 WHERE {primary}
   AND l.name = ?
   AND {free l TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))}
   AND l.ticket >= ?
   AND (SELECT q.ticket
          FROM rowlock_waiters AS q
         WHERE q.name = ?
           AND q.ticket > ?
           AND q.ticket > l.ticket
           AND q.ticket <= ?
           AND q.expire_time > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
         ORDER BY q.ticket
         LIMIT 1) = ?
   FOR UPDATE SKIP LOCKED
ON DUPLICATE KEY UPDATE
       fence        = LAST_INSERT_ID(GREATEST(rowlock_locks.fence + 1, VALUES(acquire_time))),
       owner        = ?,
       hold_count   = 1,
       attempt      = ?,
       note         = ?,
       acquire_time = VALUES(acquire_time),
       expire_time  = VALUES(expire_time),
       ticket       = ?;

-- The same on MariaDB, as acquire_free_update.
-- ? owner, ? attempt, ? note, ? ttl, ? ticket, ? name, ? heard, ? name, ? heard, ? ticket, ? ticket
-- name: turn_free_update
UPDATE rowlock_locks AS l
   SET l.acquire_time = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
       l.fence        = LAST_INSERT_ID(GREATEST(l.fence + 1, l.acquire_time)),
       l.owner        = ?,
       l.hold_count   = 1,
       l.attempt      = ?,
       l.note         = ?,
       l.expire_time  = l.acquire_time + ?,
       l.ticket       = ?
 WHERE {primary}
   AND l.name = ?
   AND {free l TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))}
   AND l.ticket >= ?
   AND (SELECT q.ticket
          FROM rowlock_waiters AS q
         WHERE q.name = ?
           AND q.ticket > ?
           AND q.ticket > l.ticket
           AND q.ticket <= ?
           AND q.expire_time > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
         ORDER BY q.ticket
         LIMIT 1) = ?;

-- After that, with the try: gives the bell to the next one who waits for it, and takes the ticket of a
-- connection that is gone off the queue. ? bell, ? name, ? ticket of the bell
-- name: heard
DO RELEASE_LOCK(?);
DELETE FROM rowlock_waiters
 WHERE name = ?
   AND ticket = ?
   AND has_bell <> 0;

-- Before acquire_one, with a ticket: no new tenure if it does not live, or is past.
-- name: turn
SELECT COUNT(*) = 0 INTO @rowlock_closed
  FROM rowlock_waiters AS q
       LEFT JOIN rowlock_locks AS l ON l.name = q.name
 WHERE q.name = @rowlock_name
   AND q.ticket = @rowlock_ticket
   AND q.ticket > COALESCE(l.ticket, 0)
   AND q.expire_time > @rowlock_now;

-- name: leave
DELETE q
  FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
           name   VARCHAR(510) CHARACTER SET latin1 PATH '$[0]',
           ticket BIGINT       PATH '$[8]')) AS w
       STRAIGHT_JOIN rowlock_waiters AS q FORCE INDEX (PRIMARY)
          ON q.name = UNHEX(w.name) AND q.ticket = w.ticket;

-- Marks the rows of a batch that are not marked far enough ahead, passing over those that somebody has
-- locked. The rows exist and are locked, so nothing is ever inserted.
-- name: mark
INSERT INTO rowlock_locks
       (name, owner, fence, hold_count, attempt, acquire_time, expire_time, wait_until)
SELECT l.name, '', 0, 0, '', 0, 0, @rowlock_now + 2 * @rowlock_life
  FROM (SELECT UNHEX(j.name) AS name
          FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
                   name VARCHAR(510) CHARACTER SET latin1 PATH '$[0]')) AS j) AS w
       STRAIGHT_JOIN rowlock_locks AS l ON l.name = w.name
 WHERE l.wait_until < @rowlock_now + @rowlock_life
   AND 1 = (SELECT 1
              FROM rowlock_locks AS k
             WHERE k.name = w.name
               FOR UPDATE SKIP LOCKED)
ON DUPLICATE KEY UPDATE
       wait_until = VALUES(wait_until);

-- name: unmarked
SELECT w.i,
       l.wait_until < @rowlock_now + @rowlock_life  AS unmarked
  FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
           i    INT          PATH '$[7]',
           name VARCHAR(510) CHARACTER SET latin1 PATH '$[0]')) AS w
       STRAIGHT_JOIN rowlock_locks AS l ON l.name = UNHEX(w.name);
COMMIT;

-- Gives the tickets that live a new life. One that is locked is about to be taken off.
-- name: keep
INSERT INTO rowlock_waiters
       (name, ticket, owner, since_time, expire_time, has_bell)
SELECT q.name, q.ticket, '', 0, @rowlock_now + @rowlock_life, 0
  FROM (SELECT UNHEX(j.name) AS name,
               j.ticket
          FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
                   name   VARCHAR(510) CHARACTER SET latin1 PATH '$[0]',
                   ticket BIGINT       PATH '$[8]')) AS j) AS w
       STRAIGHT_JOIN rowlock_waiters AS q ON q.name = w.name AND q.ticket = w.ticket
 WHERE q.expire_time > @rowlock_now
   AND 1 = (SELECT 1
              FROM rowlock_waiters AS k
             WHERE k.name = w.name
               AND k.ticket = w.ticket
               AND k.expire_time > @rowlock_now
               FOR UPDATE SKIP LOCKED)
ON DUPLICATE KEY UPDATE
       expire_time = VALUES(expire_time);
COMMIT;

-- name: look
SELECT w.i,
       q.expire_time - @rowlock_now                 AS life,
       {live l @rowlock_now} AND l.owner <> UNHEX(w.owner) AS held,
       l.expire_time - @rowlock_now                 AS remaining,
       (SELECT p.expire_time - @rowlock_now
          FROM rowlock_waiters AS p
         WHERE p.name = UNHEX(w.name)
           AND p.ticket > COALESCE(l.ticket, 0)
           AND p.ticket < w.ticket
           AND p.expire_time > @rowlock_now
         ORDER BY p.ticket DESC
         LIMIT 1)                                   AS queue
  FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
           i      INT          PATH '$[7]',
           name   VARCHAR(510) CHARACTER SET latin1 PATH '$[0]',
           owner  VARCHAR(510) CHARACTER SET latin1 PATH '$[1]',
           ticket BIGINT       PATH '$[8]')) AS w
       LEFT JOIN rowlock_locks AS l ON l.name = UNHEX(w.name)
       LEFT JOIN rowlock_waiters AS q
         ON q.name = UNHEX(w.name)
        AND q.ticket = w.ticket
        AND q.ticket > COALESCE(l.ticket, 0);

-- One page: ? first name, ? the last one of the page before, ? its ticket, ? 1 if there is an end, ? end,
-- ? how many.
-- name: waiters
SET @rowlock_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
SELECT q.name, q.owner,
       IF({live l @rowlock_now}, l.owner, NULL),
       q.ticket,
       (@rowlock_now - q.since_time) DIV 1000,
       (q.expire_time - @rowlock_now) DIV 1000
  FROM rowlock_waiters AS q
       LEFT JOIN rowlock_locks AS l ON l.name = q.name
 WHERE q.ticket > COALESCE(l.ticket, 0)
   AND q.name >= ?
   AND (q.name <> ? OR q.ticket > ?)
   AND (? = 0 OR q.name < ?)
   AND q.expire_time > @rowlock_now
 ORDER BY q.name, q.ticket
 LIMIT ?;

-- Tickets whose life ended a minute ago: nobody waits with them. ? how many
-- name: reap_tickets
SELECT JSON_ARRAYAGG(JSON_ARRAY(HEX(d.name), d.ticket)) INTO @rowlock_off
  FROM (SELECT q.name, q.ticket
          FROM rowlock_waiters AS q
         WHERE q.expire_time < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - 60000000
         ORDER BY q.name, q.ticket
         LIMIT ?) AS d;
DELETE q
  FROM JSON_TABLE(COALESCE(@rowlock_off, '[]'), '$[*]' COLUMNS (
           name   VARCHAR(510) CHARACTER SET latin1 PATH '$[0]',
           ticket BIGINT       PATH '$[1]')) AS w
       STRAIGHT_JOIN rowlock_waiters AS q FORCE INDEX (PRIMARY)
          ON q.name = UNHEX(w.name) AND q.ticket = w.ticket;

-- ? attempt, ? name, ? fence (0: any), ? fence, ? attempt; then ? name, ? attempt
-- name: force_release
UPDATE rowlock_locks AS l
   SET l.fence       = GREATEST(l.fence + 1, @rowlock_now),
       l.hold_count  = 0,
       l.expire_time = @rowlock_now,
       l.attempt     = ?
 WHERE l.name = ?
   AND {live l @rowlock_now}
   AND (? = 0 OR l.fence = ?)
   AND l.attempt <> ?;
SELECT l.hold_count
  FROM rowlock_locks AS l
 WHERE l.name = ?
   AND l.attempt = ?;
COMMIT;

-- One batch: looks where it is to end, so that no batch takes as long as the table; finds dead rows
-- behind ? (name) by a plain read, raises the floor to the largest fence of theirs, in a transaction of its
-- own; locks those that are still dead and not locked, and have no larger fence, deletes them.
-- Tickets that are past because these rows say so go first. ? retention; ? after, ? looks at one row more
-- than this; ? after, ? how many; ? how many. Answers how many were deleted, and behind which name the next
-- batch starts, if there is any.
-- name: reap
SET @rowlock_limit = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - ?,
    @rowlock_end   = NULL;
SELECT l.name INTO @rowlock_end
  FROM rowlock_locks AS l
 WHERE l.name > ?
 ORDER BY l.name
 LIMIT ?, 1;
SELECT COUNT(*), MAX(d.name), JSON_ARRAYAGG(HEX(d.name)), MAX(d.fence)
  INTO @rowlock_found, @rowlock_after, @rowlock_dead, @rowlock_fence
  FROM (SELECT l.name, l.fence
          FROM rowlock_locks AS l
         WHERE l.name > ?
           AND l.name <= COALESCE(@rowlock_end, REPEAT(x'ff', 255))
           AND l.expire_time < @rowlock_limit
         ORDER BY l.name
         LIMIT ?) AS d;
UPDATE rowlock_floor AS f
   SET f.fence = @rowlock_fence
 WHERE f.id = IF(@rowlock_found > 0, 1, 0)
   AND f.fence < @rowlock_fence;
START TRANSACTION;
SELECT JSON_ARRAYAGG(w.name) INTO @rowlock_dead
  FROM JSON_TABLE(COALESCE(@rowlock_dead, '[]'), '$[*]' COLUMNS (
           name VARCHAR(510) CHARACTER SET latin1 PATH '$')) AS w
 WHERE 1 = (SELECT 1
              FROM rowlock_locks AS k
             WHERE k.name = UNHEX(w.name)
               AND k.expire_time < @rowlock_limit
               AND k.fence <= @rowlock_fence
               FOR UPDATE SKIP LOCKED);
SELECT JSON_ARRAYAGG(JSON_ARRAY(w.name, q.ticket)) INTO @rowlock_off
  FROM JSON_TABLE(COALESCE(@rowlock_dead, '[]'), '$[*]' COLUMNS (
           name VARCHAR(510) CHARACTER SET latin1 PATH '$')) AS w
       STRAIGHT_JOIN rowlock_locks AS l ON l.name = UNHEX(w.name)
       STRAIGHT_JOIN rowlock_waiters AS q ON q.name = l.name AND q.ticket <= l.ticket
 WHERE l.ticket > 0
   AND 1 = (SELECT 1
              FROM rowlock_waiters AS p
             WHERE p.name = q.name
               AND p.ticket = q.ticket
               FOR UPDATE SKIP LOCKED);
DELETE q
  FROM JSON_TABLE(COALESCE(@rowlock_off, '[]'), '$[*]' COLUMNS (
           name   VARCHAR(510) CHARACTER SET latin1 PATH '$[0]',
           ticket BIGINT       PATH '$[1]')) AS w
       STRAIGHT_JOIN rowlock_waiters AS q FORCE INDEX (PRIMARY)
          ON q.name = UNHEX(w.name) AND q.ticket = w.ticket;
DELETE k
  FROM JSON_TABLE(COALESCE(@rowlock_dead, '[]'), '$[*]' COLUMNS (
           name VARCHAR(510) CHARACTER SET latin1 PATH '$')) AS w
       STRAIGHT_JOIN rowlock_locks AS k FORCE INDEX (PRIMARY)
          ON k.name = UNHEX(w.name);
SELECT ROW_COUNT(), IF(@rowlock_found = ?, @rowlock_after, @rowlock_end);
COMMIT;

-- One page: ? first name, ? the last one of the page before, ? 1 if there is an end, ? end, ? expired
-- ones too, ? how many.
-- name: list
SET @rowlock_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
SELECT l.name, l.owner, l.note, l.fence, l.hold_count,
       (@rowlock_now - l.acquire_time) DIV 1000,
       IF(l.hold_count > 0, l.expire_time - @rowlock_now, LEAST(l.expire_time - @rowlock_now, 0)) DIV 1000
  FROM rowlock_locks AS l
 WHERE l.name >= ?
   AND l.name <> ?
   AND (? = 0 OR l.name < ?)
   AND (? <> 0 OR {live l @rowlock_now})
 ORDER BY l.name
 LIMIT ?;

-- Fails with "no such table" where there are none.
-- name: schema_version
SELECT MAX(version) FROM rowlock_schema;

-- Which of them is no table: a view may lock nothing, or not what others lock. ? schema or NULL, ? prefix
-- name: schema_views
SELECT t.table_name
  FROM information_schema.tables AS t
       CROSS JOIN (SELECT CONVERT(? USING utf8mb4) AS place, CONVERT(? USING utf8mb4) AS prefix) AS p
 WHERE t.table_schema = COALESCE(p.place, DATABASE())
   AND t.table_name IN (CONCAT(p.prefix, 'locks'), CONCAT(p.prefix, 'waiters'),
                        CONCAT(p.prefix, 'schema'), CONCAT(p.prefix, 'floor'))
   AND t.table_type <> 'BASE TABLE';

-- ? name of the lock, ? seconds
-- name: schema_lock
SELECT GET_LOCK(?, ?);

-- name: schema_unlock
SELECT RELEASE_LOCK(?);

-- name: rollback
ROLLBACK;

-- Transaction mode. Here the batch is [name, i].
--
-- Creates what is absent as free rows, and answers the leases that live. Waits for nothing that exists.
-- name: prepare
INSERT INTO rowlock_locks
       (name, owner, fence, hold_count, attempt, acquire_time, expire_time)
SELECT UNHEX(w.name), '',
       GREATEST(@rowlock_now, (SELECT f.fence
                                 FROM rowlock_floor AS f
                                WHERE f.id = IF(l.name IS NULL, 1, 0)
                                 LOCK IN SHARE MODE)),
       0, '', @rowlock_now, @rowlock_now
  FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
           i    INT          PATH '$[1]',
           name VARCHAR(510) CHARACTER SET latin1 PATH '$[0]')) AS w
       LEFT JOIN rowlock_locks AS l ON l.name = UNHEX(w.name)
 WHERE {primary}
   AND l.name IS NULL
 ORDER BY w.i
ON DUPLICATE KEY UPDATE
       hold_count = rowlock_locks.hold_count;
SELECT w.i,
       l.fence,
       l.expire_time - @rowlock_now                 AS remaining,
       l.owner
  FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
           i    INT          PATH '$[1]',
           name VARCHAR(510) CHARACTER SET latin1 PATH '$[0]')) AS w
       STRAIGHT_JOIN rowlock_locks AS l ON l.name = UNHEX(w.name)
 WHERE {live l @rowlock_now};

-- The server's identity as in `here`, and the database, as it stands between backticks. Fails where the
-- tables are not there.
-- name: locate
SELECT HEX(CAST(CONVERT(CONCAT_WS(',', @@port, @@hostname, @@datadir /*!80000 , @@server_uuid */)
                        USING utf8mb4) AS BINARY)),
       REPLACE(DATABASE(), '`', '``'),
       MAX(version)
  FROM rowlock_schema;

-- The statements from here to "guard" run in sessions of the application's: in any database, sql_mode,
-- character set, time zone and isolation level, one in each request. They use no variables and change none.
-- Each SELECT has its own LIMIT, whatever sql_select_limit is.
-- They need no SAVEPOINT: a statement that fails undoes itself alone, and going back to a savepoint
-- would not give row locks back. None of them is a plain read, which would make the transaction's
-- snapshot before the lock is had.
--
-- Each row is locked by its key in a scalar subquery, in the order of the batch. That cannot become a
-- join, whatever the session's optimizer is set to, so that no other row and no gap is locked, and the
-- rows are locked in order. (A list in IN (...) may be read by a scan of the whole table.)
--
-- The clock is SYSDATE, read when the row is locked: unlike the others it does not follow the session's
-- "SET timestamp". It is UTC because each server is told so for the statement alone, in its own way:
-- MySQL by the hint (8.0.17 and later), MariaDB by SET STATEMENT. Where that had no effect it is NULL.
--
-- The batch, in place of (?). No JSON: its paths are not read in sessions with a connection character
-- set like utf32. ? i, ? name, ? owner, ? attempt, ? fence
-- name: batch_first
SELECT ? AS i, ? AS name, ? AS owner, ? AS attempt, ? AS fence

-- name: batch_next
UNION ALL SELECT ?, ?, ?, ?, ?

-- Is this the server with the identity ?, the client's? It stands for (?) in sessions of the application's:
-- a row of the same name on another server would be locked for nothing. Being constant it is known before
-- a row is read, so that none is locked there.
-- name: here
? = CAST(CONVERT(CONCAT_WS(',', @@port, @@hostname, @@datadir /*!80000 , @@server_uuid */)
                 USING utf8mb4) AS BINARY)
AND {primary}

-- What the session knows by that name: a temporary table goes before the real one, whatever the name is
-- qualified with, and nothing but this text tells them apart on both servers. It reads no row.
-- name: native_table
SHOW CREATE TABLE rowlock_locks;

-- Rows that others have locked come as NULL, as do absent ones. ? here, ? here, ? batch
-- name: lock_skip
SELECT /*+ SET_VAR(time_zone = '+00:00') */
       w.i,
       (SELECT CAST(CONVERT(CONCAT_WS(',', k.fence, {end k}, HEX(k.owner)) USING latin1)
                    AS BINARY)
          FROM rowlock_locks AS k
         WHERE k.name = w.name
           AND (?)
           FOR UPDATE SKIP LOCKED) AS locked,
       CASE WHEN NOW(6) = UTC_TIMESTAMP(6)
            THEN TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) END AS now,
       (?) AS here
  FROM (?) AS w
 LIMIT 1000000;

-- The same, but ends at the first row that others have locked (error 3572), so that nothing behind it
-- is locked and the order is kept when it is sent again. Not on MariaDB in sessions of the application's:
-- the error is 1205 there, which may undo the transaction (innodb_rollback_on_timeout).
-- name: lock_nowait
SELECT /*+ SET_VAR(time_zone = '+00:00') */
       w.i,
       (SELECT CAST(CONVERT(CONCAT_WS(',', k.fence, {end k}, HEX(k.owner)) USING latin1)
                    AS BINARY)
          FROM rowlock_locks AS k
         WHERE k.name = w.name
           AND (?)
           FOR UPDATE NOWAIT) AS locked,
       CASE WHEN NOW(6) = UTC_TIMESTAMP(6)
            THEN TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) END AS now,
       (?) AS here
  FROM (?) AS w
 LIMIT 1000000;

-- The same, but waits in the queue of each row. On MySQL the second hint bounds it: when time is up the
-- statement ends with error 3024, and the transaction goes on, also with innodb_rollback_on_timeout.
-- ? milliseconds, ? here, ? here, ? batch
-- name: lock_wait
SELECT /*+ SET_VAR(time_zone = '+00:00') MAX_EXECUTION_TIME(?) */
       w.i,
       (SELECT CAST(CONVERT(CONCAT_WS(',', k.fence, {end k}, HEX(k.owner)) USING latin1)
                    AS BINARY)
          FROM rowlock_locks AS k
         WHERE k.name = w.name
           AND (?)
           FOR UPDATE) AS locked,
       CASE WHEN NOW(6) = UTC_TIMESTAMP(6)
            THEN TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) END AS now,
       (?) AS here
  FROM (?) AS w
 LIMIT 1000000;

-- Before each of these and of the guard, on MariaDB: ? seconds with a fraction, ? more than that. When
-- time is up the statement ends with error 1969, and the transaction goes on, also with
-- innodb_rollback_on_timeout.
-- name: wait_bound
SET STATEMENT max_statement_time = ?, innodb_lock_wait_timeout = ?, time_zone = _latin1'+00:00' FOR

-- Around lock_wait, on MySQL: where the session's own bound is not longer than the wait, it is made so,
-- since its end (error 1205) may undo the transaction.
-- name: timeout_read
SELECT @@SESSION.innodb_lock_wait_timeout LIMIT 1;

-- name: timeout_set
SET SESSION innodb_lock_wait_timeout = ?;

-- The rows are locked, their new fences were made from what was read under the lock. x'' and not '',
-- which some sessions take for NULL. ? owner, ? fence, ? attempt, ? now, ? now, ? name
-- name: lock_write_one
UPDATE rowlock_locks AS l
   SET l.owner        = ?,
       l.fence        = ?,
       l.hold_count   = 0,
       l.attempt      = ?,
       l.acquire_time = ?,
       l.expire_time  = ?,
       l.note         = x''
 WHERE {primary}
   AND l.name = ?;

-- The same for a batch in one request. Sessions with sql_safe_updates or a small max_join_size refuse
-- it (errors 1175, 1104) and get the one above for each row. UPDATE uses no join buffer, so that w
-- gives the order and each row is found by its key. ? batch, ? now, ? now
-- name: lock_write
UPDATE (?) AS w
       STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY)
          ON l.name = w.name
   SET l.owner        = w.owner,
       l.fence        = w.fence,
       l.hold_count   = 0,
       l.attempt      = w.attempt,
       l.acquire_time = ?,
       l.expire_time  = ?,
       l.note         = x''
 WHERE {primary};

-- ? here, ? owner, ? fence, ? name, ? here. Each server reads its own spelling of the shared lock. Rows
-- that others have locked are passed over; one's own locks and shared ones are not in the way. Answers
-- "held,remaining" of the row, without the latter where the clock does not tell UTC.
-- name: guard
SELECT /*+ SET_VAR(time_zone = '+00:00') */
       (?) AS here,
       (SELECT CAST(CONVERT(CONCAT_WS(',',
                        k.owner = ? AND k.fence = ?,
                        CASE WHEN NOW(6) = UTC_TIMESTAMP(6)
                             THEN {end k}
                                  - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) END)
                    USING latin1) AS BINARY)
          FROM rowlock_locks AS k
         WHERE k.name = ?
           AND (?)
         LIMIT 1
        /*M!100600 LOCK IN SHARE MODE */
        /*!80000 FOR SHARE */
        SKIP LOCKED) AS locked
 LIMIT 1;

-- The same when nothing was found, to tell a row that is locked from one that is gone: an error or
-- no row. MySQL does not wait for it; MariaDB does for the few milliseconds of its bound.
-- name: guard_again
SELECT /*+ SET_VAR(time_zone = '+00:00') */
       (?) AS here,
       (SELECT CAST(CONVERT(CONCAT_WS(',',
                        k.owner = ? AND k.fence = ?,
                        CASE WHEN NOW(6) = UTC_TIMESTAMP(6)
                             THEN {end k}
                                  - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) END)
                    USING latin1) AS BINARY)
          FROM rowlock_locks AS k
         WHERE k.name = ?
           AND (?)
         LIMIT 1
        /*M!100600 LOCK IN SHARE MODE */
        /*!80000 FOR SHARE NOWAIT */) AS locked
 LIMIT 1;

-- When the library's own connection has its locks, it is given to the application: with the server's
-- settings (but for those of COMMIT, which is ours), and a mark that tells this transaction from any later one.
-- name: tx_ready
SAVEPOINT rowlock;
SET SESSION sql_mode = DEFAULT, time_zone = DEFAULT, innodb_lock_wait_timeout = DEFAULT,
            lock_wait_timeout = DEFAULT, group_concat_max_len = DEFAULT,
            sql_select_limit = DEFAULT, sql_safe_updates = DEFAULT, sql_big_selects = DEFAULT,
            max_sort_length = DEFAULT, unique_checks = DEFAULT, optimizer_switch = DEFAULT
            /*M!100600 , max_statement_time = DEFAULT, join_cache_level = DEFAULT */
            /*!80000 , max_execution_time = DEFAULT */
            /*M!110402 , innodb_snapshot_isolation = DEFAULT */;

-- Fails (error 1305) if the transaction that was marked has ended, and (1690) if the server is no primary.
-- name: tx_commit
RELEASE SAVEPOINT rowlock;
SET @rowlock_bad = {primary};
COMMIT;

-- Who answers, for whom, and when.
-- name: diagnose_server
SELECT VERSION(), CONNECTION_ID(), CURRENT_USER(), DATABASE(),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));

-- Settings and counters by name; those of the other family, and of what is not installed, are absent.
-- name: diagnose_settings
SELECT LOWER(v.variable_name), v.variable_value
  FROM /*M!100600 information_schema.global_variables */
       /*!80000 performance_schema.global_variables */ AS v
 WHERE v.variable_name IN ('read_only', 'innodb_read_only', 'innodb_flush_log_at_trx_commit',
                           'innodb_doublewrite', 'log_bin', 'binlog_format', 'sync_binlog',
                           'transaction_isolation', 'tx_isolation', 'max_connections',
                           'rpl_semi_sync_master_enabled', 'rpl_semi_sync_source_enabled',
                           'wsrep_cluster_address', 'group_replication_group_name',
                           'group_replication_single_primary_mode')
 UNION ALL
SELECT LOWER(v.variable_name), v.variable_value
  FROM /*M!100600 information_schema.global_status */
       /*!80000 performance_schema.global_status */ AS v
 WHERE v.variable_name IN ('threads_connected', 'slaves_connected', 'wsrep_cluster_size',
                           'wsrep_cluster_status');

-- ? schema or NULL, ? prefix: the tables and their engines, and how many triggers each has; what this
-- user has no right on is not seen.
-- name: diagnose_tables
SELECT t.table_name, t.engine,
       (SELECT COUNT(*)
          FROM information_schema.triggers AS g
         WHERE g.event_object_schema = t.table_schema
           AND g.event_object_table = t.table_name) AS triggers
  FROM information_schema.tables AS t
       CROSS JOIN (SELECT CONVERT(? USING utf8mb4) AS place, CONVERT(? USING utf8mb4) AS prefix) AS p
 WHERE t.table_schema = COALESCE(p.place, DATABASE())
   AND t.table_type = 'BASE TABLE'
   AND t.table_name IN (CONCAT(p.prefix, 'locks'), CONCAT(p.prefix, 'waiters'),
                        CONCAT(p.prefix, 'schema'), CONCAT(p.prefix, 'floor'))
 ORDER BY t.table_name;

-- What is explained needs the rights of what is done, and does nothing.
-- name: diagnose_select_locks
EXPLAIN SELECT l.name, l.owner, l.fence, l.hold_count, l.attempt, l.acquire_time, l.expire_time,
               l.wait_until, l.ticket, l.note
          FROM rowlock_locks AS l;

-- name: diagnose_insert_locks
EXPLAIN INSERT INTO rowlock_locks (name, owner, fence, hold_count, attempt, acquire_time, expire_time)
        VALUES (x'00', x'', 0, 0, x'00000000000000000000000000000000', 0, 0);

-- name: diagnose_update_locks
EXPLAIN UPDATE rowlock_locks SET note = '' WHERE name = x'00';

-- name: diagnose_delete_locks
EXPLAIN DELETE FROM rowlock_locks WHERE name = x'00';

-- name: diagnose_select_waiters
EXPLAIN SELECT w.name, w.ticket, w.owner, w.since_time, w.expire_time, w.has_bell
          FROM rowlock_waiters AS w;

-- name: diagnose_insert_waiters
EXPLAIN INSERT INTO rowlock_waiters (name, ticket, owner, since_time, expire_time, has_bell)
        VALUES (x'00', 0, x'', 0, 0, 0);

-- name: diagnose_update_waiters
EXPLAIN UPDATE rowlock_waiters SET owner = '' WHERE name = x'00';

-- name: diagnose_delete_waiters
EXPLAIN DELETE FROM rowlock_waiters WHERE name = x'00';

-- name: diagnose_select_floor
EXPLAIN SELECT f.id, f.fence FROM rowlock_floor AS f;

-- name: diagnose_update_floor
EXPLAIN UPDATE rowlock_floor SET fence = 0 WHERE id = 0;
