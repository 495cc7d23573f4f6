-- The statements of the MySQL and MariaDB driver; MySQL 8.0+, MariaDB 10.6+.
--
-- Each ? is replaced by a literal that the driver makes itself: an integer, x'hex' or a JSON text of
-- integers and hex digits. Nothing of the user's is ever escaped or pasted. A batch travels as one
-- JSON array, @rowlock_ops, of [name, owner, attempt, fence, ttl, seen, note, i], sorted by
-- name, i being the caller's index. One packet holds all statements of a call, in one transaction, so that the
-- answer is read while the rows that were changed are still locked. Isolation is READ COMMITTED: the plain reads take no lock, also
-- inside INSERT ... SELECT.
--
-- "FOR UPDATE SKIP LOCKED" in a subquery that depends on w locks one row by its key, and only after
-- the plain read has found it worth locking. So nobody waits for an existing row, a busy row is not
-- touched, and there is nothing to deadlock on. INSERT ... ON DUPLICATE KEY UPDATE is the one
-- statement of both servers that creates or changes rows from a SELECT and assigns from left to right.
-- It takes what comes from the SELECT as VALUES(column), never as w.column: the SELECT reads the table
-- that is written, so its rows are put aside first, and w no longer stands on the row at hand.

-- What a connection sets. Lock waits are whole seconds in these servers: one for rows, two
-- for a table that is being altered.
-- name: session
SET NAMES utf8mb4;
SET SESSION sql_mode = 'STRICT_ALL_TABLES', time_zone = '+00:00', autocommit = 1,
            innodb_lock_wait_timeout = 1, lock_wait_timeout = 2, group_concat_max_len = 1048576;
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET SESSION TRANSACTION READ WRITE;

-- name: server
SELECT VERSION(),
       CAST(@@read_only AS CHAR) NOT IN ('0', 'OFF') OR @@innodb_read_only,
       @@max_allowed_packet;

-- The clock of the whole call: read when the request arrives. Being early is on the safe side.
-- name: begin
SET @rowlock_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
    @rowlock_ops = ?,
    @rowlock_all = ?,
    @rowlock_bad = 0;

-- name: start
START TRANSACTION;

-- All or none. Counts the rows that others hold; if there are none, creates what is absent as free rows,
-- in a transaction of its own, and then counts the rows that are locked at this moment. Rows are
-- created beforehand because a later failure would undo their insertion, and whoever waits for an
-- insertion that is undone is left with a gap lock: two of them deadlock. The clock is read again once
-- they are there, so that no fence is older than its row. The scalar subquery cannot become a join,
-- which might read, and lock, the whole table.
-- name: gate
SELECT COUNT(*) INTO @rowlock_bad
  FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
           name  VARCHAR(510) CHARACTER SET latin1 PATH '$[0]',
           owner VARCHAR(510) CHARACTER SET latin1 PATH '$[1]')) AS w
       STRAIGHT_JOIN rowlock_locks AS l ON l.name = UNHEX(w.name)
 WHERE l.expire_time > @rowlock_now
   AND l.hold_count > 0
   AND l.owner <> UNHEX(w.owner);
INSERT INTO rowlock_locks
       (name, owner, fence, hold_count, attempt, acquire_time, expire_time)
SELECT UNHEX(w.name), '', @rowlock_now, 0, '', @rowlock_now, @rowlock_now
  FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
           i    INT          PATH '$[7]',
           name VARCHAR(510) CHARACTER SET latin1 PATH '$[0]')) AS w
       LEFT JOIN rowlock_locks AS l ON l.name = UNHEX(w.name)
 WHERE @rowlock_bad = 0
   AND l.name IS NULL
 ORDER BY w.i
ON DUPLICATE KEY UPDATE
       hold_count = rowlock_locks.hold_count;
SET @rowlock_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
START TRANSACTION;
SELECT @rowlock_bad + COUNT(*) INTO @rowlock_bad
  FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
           name  VARCHAR(510) CHARACTER SET latin1 PATH '$[0]',
           owner VARCHAR(510) CHARACTER SET latin1 PATH '$[1]')) AS w
       STRAIGHT_JOIN rowlock_locks AS l ON l.name = UNHEX(w.name)
 WHERE @rowlock_bad = 0
   AND (SELECT 1
          FROM rowlock_locks AS k
         WHERE k.name = UNHEX(w.name)
           AND (k.expire_time <= @rowlock_now OR k.hold_count = 0 OR k.owner = UNHEX(w.owner))
           FOR UPDATE SKIP LOCKED) IS NULL;

-- Takes what is absent, expired, without holds or the owner's own. The clock of the call may be older
-- than the end of the tenure or the transaction before, so that expire_time is still ahead of it: no
-- tenure goes on without a hold, also not the owner's own. The first assignment says so to all others,
-- which go from left to right; the last one gives the column its value.
--
-- A row that somebody created after the plain read is decided on again under its lock; if all are
-- wanted and it is not to be had (it was reaped and created again), the sum leaves the range of BIGINT
-- (error 1690), and the statement undoes itself.
--
-- A new row that was more than a second in the making is called late: its fence was made before it was
-- there, and in so long a time another tenure might have come, gone and been reaped. The driver frees
-- it and asks again; then the row is there, and its fence is made under its lock. A batch may well take
-- a second every time, so here a fence tells which row was new: it is @rowlock_now, and above it for a
-- row that the plain read has found.
-- name: acquire
INSERT INTO rowlock_locks
       (name, owner, fence, hold_count, attempt, acquire_time, expire_time, note)
SELECT w.name, w.owner, @rowlock_now + (l.name IS NOT NULL), 1, w.attempt, @rowlock_now,
       @rowlock_now + w.ttl, w.note
  FROM (SELECT j.i,
               UNHEX(j.name)    AS name,
               UNHEX(j.owner)   AS owner,
               UNHEX(j.attempt) AS attempt,
               j.ttl,
               UNHEX(j.note)    AS note
          FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
                   i       INT           PATH '$[7]',
                   name    VARCHAR(510)  CHARACTER SET latin1 PATH '$[0]',
                   owner   VARCHAR(510)  CHARACTER SET latin1 PATH '$[1]',
                   attempt VARCHAR(32)   CHARACTER SET latin1 PATH '$[2]',
                   ttl     BIGINT        PATH '$[4]',
                   note    VARCHAR(2000) CHARACTER SET latin1 PATH '$[6]')) AS j) AS w
       LEFT JOIN rowlock_locks AS l ON l.name = w.name
 WHERE @rowlock_bad = 0
   AND (l.name IS NULL
        OR ((l.expire_time <= @rowlock_now OR l.hold_count = 0 OR l.owner = w.owner)
            AND EXISTS (SELECT 1
                          FROM rowlock_locks AS k
                         WHERE k.name = w.name
                           AND (k.expire_time <= @rowlock_now OR k.hold_count = 0
                                OR k.owner = w.owner)
                           FOR UPDATE SKIP LOCKED)))
 ORDER BY w.i
ON DUPLICATE KEY UPDATE
       expire_time  = IF(rowlock_locks.hold_count = 0, 0, rowlock_locks.expire_time),
       fence        = IF(rowlock_locks.expire_time <= @rowlock_now,
                         GREATEST(rowlock_locks.fence + 1, VALUES(fence)),
                         rowlock_locks.fence + IF(@rowlock_all
                                                  AND rowlock_locks.owner <> VALUES(owner),
                                                  9223372036854775807, 0)),
       hold_count   = IF(rowlock_locks.expire_time <= @rowlock_now,
                         1,
                         rowlock_locks.hold_count + (rowlock_locks.owner = VALUES(owner)
                                                     AND rowlock_locks.attempt <> VALUES(attempt))),
       acquire_time = IF(rowlock_locks.expire_time <= @rowlock_now,
                         @rowlock_now, rowlock_locks.acquire_time),
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
SELECT w.i,
       l.owner = UNHEX(w.owner)                     AS own,
       l.attempt = UNHEX(w.attempt)                 AS mine,
       l.fence,
       l.hold_count,
       l.expire_time - @rowlock_now                 AS remaining,
       l.owner,
       l.fence = @rowlock_now
       AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - @rowlock_now > 1000000 AS late
  FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
           i       INT          PATH '$[7]',
           name    VARCHAR(510) CHARACTER SET latin1 PATH '$[0]',
           owner   VARCHAR(510) CHARACTER SET latin1 PATH '$[1]',
           attempt VARCHAR(32)  CHARACTER SET latin1 PATH '$[2]')) AS w
       STRAIGHT_JOIN rowlock_locks AS l ON l.name = UNHEX(w.name);
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
 WHERE l.owner = w.owner
   AND l.fence = w.fence
   AND l.expire_time > @rowlock_now
   AND l.hold_count > 0
   AND 1 = (SELECT 1
              FROM rowlock_locks AS k
             WHERE k.name = w.name
               AND k.owner = w.owner
               AND k.fence = w.fence
               AND k.expire_time > @rowlock_now
               AND k.hold_count > 0
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
   AND l.expire_time > @rowlock_now
   AND l.hold_count > 0;
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
               AND k.expire_time > @rowlock_now
               AND k.hold_count > 0
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
   AND (l.attempt = UNHEX(w.attempt) OR (l.expire_time > @rowlock_now AND l.hold_count > 0));
COMMIT;

-- The same for a single lock, without JSON and the temporary tables that reading it takes.
-- ? name, ? owner, ? attempt, ? fence, ? ttl, ? seen, ? note
-- name: begin_one
SET @rowlock_now     = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
    @rowlock_name    = ?,
    @rowlock_owner   = ?,
    @rowlock_attempt = ?,
    @rowlock_fence   = ?,
    @rowlock_ttl     = ?,
    @rowlock_seen    = ?,
    @rowlock_note    = ?;
START TRANSACTION;

-- name: acquire_one
SELECT COUNT(*) INTO @rowlock_bad
  FROM rowlock_locks AS l
 WHERE l.name = @rowlock_name
   AND ((l.expire_time > @rowlock_now AND l.hold_count > 0 AND l.owner <> @rowlock_owner)
        OR NOT EXISTS (SELECT 1
                         FROM rowlock_locks AS k
                        WHERE k.name = @rowlock_name
                          AND (k.expire_time <= @rowlock_now OR k.hold_count = 0
                               OR k.owner = @rowlock_owner)
                          FOR UPDATE SKIP LOCKED));
INSERT INTO rowlock_locks
       (name, owner, fence, hold_count, attempt, acquire_time, expire_time, note)
SELECT @rowlock_name, @rowlock_owner, @rowlock_now, 1, @rowlock_attempt, @rowlock_now,
       @rowlock_now + @rowlock_ttl, @rowlock_note
  FROM DUAL
 WHERE @rowlock_bad = 0
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
SELECT 0,
       l.owner = @rowlock_owner                     AS own,
       l.attempt = @rowlock_attempt                 AS mine,
       l.fence,
       l.hold_count,
       l.expire_time - @rowlock_now                 AS remaining,
       l.owner,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - @rowlock_now > 1000000 AS late
  FROM rowlock_locks AS l
 WHERE l.name = @rowlock_name;
COMMIT;

-- name: release_one
UPDATE rowlock_locks AS l
   SET l.attempt     = @rowlock_attempt,
       l.hold_count  = l.hold_count - 1,
       l.expire_time = IF(l.hold_count = 0, @rowlock_now, l.expire_time)
 WHERE l.name = @rowlock_name
   AND l.owner = @rowlock_owner
   AND l.fence = @rowlock_fence
   AND l.attempt <> @rowlock_attempt
   AND (@rowlock_seen = '' OR l.attempt = @rowlock_seen)
   AND l.expire_time > @rowlock_now
   AND l.hold_count > 0;
SELECT 0,
       l.hold_count,
       l.attempt = @rowlock_attempt                 AS done,
       l.attempt
  FROM rowlock_locks AS l
 WHERE l.name = @rowlock_name
   AND l.owner = @rowlock_owner
   AND l.fence = @rowlock_fence
   AND (l.attempt = @rowlock_attempt OR (l.expire_time > @rowlock_now AND l.hold_count > 0));
COMMIT;

-- ? attempt, ? name, ? fence (0: any), ? fence, ? attempt; then ? name, ? attempt
-- name: force_release
UPDATE rowlock_locks AS l
   SET l.fence       = GREATEST(l.fence + 1, @rowlock_now),
       l.hold_count  = 0,
       l.expire_time = @rowlock_now,
       l.attempt     = ?
 WHERE l.name = ?
   AND l.expire_time > @rowlock_now
   AND l.hold_count > 0
   AND (? = 0 OR l.fence = ?)
   AND l.attempt <> ?;
SELECT l.hold_count
  FROM rowlock_locks AS l
 WHERE l.name = ?
   AND l.attempt = ?;
COMMIT;

-- One batch: finds dead rows behind ? (name) by a plain read, locks those that are still dead and not
-- locked, deletes them. ? retention, ? after, ? how many. Answers how many were found and deleted, and
-- behind which name the next batch starts.
-- name: reap
SET @rowlock_limit = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - ?;
SELECT COUNT(*), HEX(MAX(d.name)), JSON_ARRAYAGG(HEX(d.name))
  INTO @rowlock_found, @rowlock_after, @rowlock_dead
  FROM (SELECT l.name
          FROM rowlock_locks AS l
         WHERE l.name > ?
           AND l.expire_time < @rowlock_limit
           AND l.fence < @rowlock_limit
         ORDER BY l.name
         LIMIT ?) AS d;
START TRANSACTION;
SELECT JSON_ARRAYAGG(w.name) INTO @rowlock_dead
  FROM JSON_TABLE(COALESCE(@rowlock_dead, '[]'), '$[*]' COLUMNS (
           name VARCHAR(510) CHARACTER SET latin1 PATH '$')) AS w
 WHERE 1 = (SELECT 1
              FROM rowlock_locks AS k
             WHERE k.name = UNHEX(w.name)
               AND k.expire_time < @rowlock_limit
               AND k.fence < @rowlock_limit
               FOR UPDATE SKIP LOCKED);
DELETE k
  FROM JSON_TABLE(COALESCE(@rowlock_dead, '[]'), '$[*]' COLUMNS (
           name VARCHAR(510) CHARACTER SET latin1 PATH '$')) AS w
       STRAIGHT_JOIN rowlock_locks AS k ON k.name = UNHEX(w.name);
SELECT @rowlock_found, ROW_COUNT(), @rowlock_after;
COMMIT;

-- One page: ? first name, ? the last one of the page before, ? 1 if there is an end, ? end, ? expired
-- ones too, ? how many.
-- name: list
SET @rowlock_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
SELECT l.name, l.owner, l.note, l.fence, l.hold_count,
       (@rowlock_now - l.acquire_time) DIV 1000,
       (l.expire_time - @rowlock_now) DIV 1000
  FROM rowlock_locks AS l
 WHERE l.name >= ?
   AND l.name <> ?
   AND (? = 0 OR l.name < ?)
   AND (? <> 0 OR l.expire_time > @rowlock_now)
 ORDER BY l.name
 LIMIT ?;

-- Fails with "no such table" where there are none.
-- name: schema_version
SELECT MAX(version) FROM rowlock_schema;

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
SELECT UNHEX(w.name), '', @rowlock_now, 0, '', @rowlock_now, @rowlock_now
  FROM JSON_TABLE(@rowlock_ops, '$[*]' COLUMNS (
           i    INT          PATH '$[1]',
           name VARCHAR(510) CHARACTER SET latin1 PATH '$[0]')) AS w
       LEFT JOIN rowlock_locks AS l ON l.name = UNHEX(w.name)
 WHERE l.name IS NULL
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
 WHERE l.expire_time > @rowlock_now
   AND l.hold_count > 0;

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

-- Rows that others have locked come as NULL, as do absent ones. ? here, ? here, ? batch
-- name: lock_skip
SELECT /*+ SET_VAR(time_zone = '+00:00') */
       w.i,
       (SELECT CAST(CONVERT(CONCAT_WS(',', k.fence, k.expire_time, HEX(k.owner)) USING latin1)
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
       (SELECT CAST(CONVERT(CONCAT_WS(',', k.fence, k.expire_time, HEX(k.owner)) USING latin1)
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
       (SELECT CAST(CONVERT(CONCAT_WS(',', k.fence, k.expire_time, HEX(k.owner)) USING latin1)
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
SELECT @@SESSION.innodb_lock_wait_timeout;

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
 WHERE l.name = ?;

-- The same for a batch in one request. Sessions with sql_safe_updates or a small max_join_size refuse
-- it (errors 1175, 1104) and get the one above for each row. UPDATE uses no join buffer, so that w
-- gives the order and each row is found by its key. ? batch, ? now, ? now
-- name: lock_write
UPDATE (?) AS w
       STRAIGHT_JOIN rowlock_locks AS l ON l.name = w.name
   SET l.owner        = w.owner,
       l.fence        = w.fence,
       l.hold_count   = 0,
       l.attempt      = w.attempt,
       l.acquire_time = ?,
       l.expire_time  = ?,
       l.note         = x'';

-- ? here, ? owner, ? fence, ? name, ? here. Each server reads its own spelling of the shared lock. Rows
-- that others have locked are passed over; one's own locks and shared ones are not in the way. Answers
-- "held,remaining" of the row, without the latter where the clock does not tell UTC.
-- name: guard
SELECT /*+ SET_VAR(time_zone = '+00:00') */
       (?) AS here,
       (SELECT CAST(CONVERT(CONCAT_WS(',',
                        k.owner = ? AND k.fence = ?,
                        CASE WHEN NOW(6) = UTC_TIMESTAMP(6)
                             THEN k.expire_time
                                  - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) END)
                    USING latin1) AS BINARY)
          FROM rowlock_locks AS k
         WHERE k.name = ?
           AND (?)
         LIMIT 1
        /*M!100600 LOCK IN SHARE MODE */
        /*!80000 FOR SHARE */
        SKIP LOCKED) AS locked;

-- The same when nothing was found, to tell a row that is locked from one that is gone: an error or
-- no row. MySQL does not wait for it; MariaDB does for the few milliseconds of its bound.
-- name: guard_again
SELECT /*+ SET_VAR(time_zone = '+00:00') */
       (?) AS here,
       (SELECT CAST(CONVERT(CONCAT_WS(',',
                        k.owner = ? AND k.fence = ?,
                        CASE WHEN NOW(6) = UTC_TIMESTAMP(6)
                             THEN k.expire_time
                                  - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) END)
                    USING latin1) AS BINARY)
          FROM rowlock_locks AS k
         WHERE k.name = ?
           AND (?)
         LIMIT 1
        /*M!100600 LOCK IN SHARE MODE */
        /*!80000 FOR SHARE NOWAIT */) AS locked;

-- When the library's own connection has its locks, it is given to the application: with the server's
-- settings, and a mark that tells this transaction from any later one.
-- name: tx_ready
SAVEPOINT rowlock;
SET SESSION sql_mode = DEFAULT, time_zone = DEFAULT, innodb_lock_wait_timeout = DEFAULT,
            lock_wait_timeout = DEFAULT, group_concat_max_len = DEFAULT;

-- Fails (error 1305) if the transaction that was marked has ended.
-- name: tx_commit
RELEASE SAVEPOINT rowlock;
COMMIT;
