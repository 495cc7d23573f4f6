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

-- What a connection sets and asks once. Lock waits are whole seconds in these servers: one for rows, two
-- for a table that is being altered.
-- name: session
SET NAMES utf8mb4;
SET SESSION sql_mode = 'STRICT_ALL_TABLES', time_zone = '+00:00', autocommit = 1,
            innodb_lock_wait_timeout = 1, lock_wait_timeout = 2, group_concat_max_len = 1048576;
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET SESSION TRANSACTION READ WRITE;
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
           AND (k.expire_time <= @rowlock_now OR k.owner = UNHEX(w.owner))
           FOR UPDATE SKIP LOCKED) IS NULL;

-- Takes what is absent, expired or the owner's own. A row that somebody created after the plain read is
-- decided on again under its lock; if all are wanted and it is not to be had (it was reaped and created
-- again), the sum leaves the range of BIGINT (error 1690), and the statement undoes itself.
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
        OR ((l.expire_time <= @rowlock_now OR l.owner = w.owner)
            AND EXISTS (SELECT 1
                          FROM rowlock_locks AS k
                         WHERE k.name = w.name
                           AND (k.expire_time <= @rowlock_now OR k.owner = w.owner)
                           FOR UPDATE SKIP LOCKED)))
 ORDER BY w.i
ON DUPLICATE KEY UPDATE
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
   AND 1 = (SELECT 1
              FROM rowlock_locks AS k
             WHERE k.name = w.name
               AND k.owner = w.owner
               AND k.fence = w.fence
               AND k.expire_time > @rowlock_now
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
   AND l.expire_time > @rowlock_now;
COMMIT;

-- Gives holds back, where the row has the attempt that was seen last ('' for any); where it has another
-- one, that is answered. This one waits for a locked row: a release has no other answer for it. The rows
-- exist and are locked, so nothing is ever inserted.
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
   AND ((l.expire_time > @rowlock_now AND l.owner <> @rowlock_owner)
        OR NOT EXISTS (SELECT 1
                         FROM rowlock_locks AS k
                        WHERE k.name = @rowlock_name
                          AND (k.expire_time <= @rowlock_now OR k.owner = @rowlock_owner)
                          FOR UPDATE SKIP LOCKED));
INSERT INTO rowlock_locks
       (name, owner, fence, hold_count, attempt, acquire_time, expire_time, note)
SELECT @rowlock_name, @rowlock_owner, @rowlock_now, 1, @rowlock_attempt, @rowlock_now,
       @rowlock_now + @rowlock_ttl, @rowlock_note
  FROM DUAL
 WHERE @rowlock_bad = 0
ON DUPLICATE KEY UPDATE
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
