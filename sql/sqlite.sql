-- SPDX-License-Identifier: MIT
--
-- What rowlock asks of SQLite, all of it. Each block is one prepared statement.
--
-- rowlock_now() is the database's clock in microseconds, registered by the driver: the host's time
-- since boot plus the offset in rowlock_clock. It is read once, when a statement or transaction
-- first asks for it, which is after SQLite has given the write lock; all later uses in the same
-- statement or transaction see the same moment. So two columns are never decided by two times.
--
-- rowlock_fence() is the same moment, where a fence is made of it: it is below rowlock_clock.floor_time, and
-- that is on the disk. Commits of leases are not synced, so the last of them may be lost with the power; the
-- next boot's clock starts above floor_time, and so above every fence that was ever given.
--
-- A lease lives while it has holds and its time has not passed: a clock that was set back brings none back.
-- fragment: live = (ROW.hold_count > 0 AND ROW.expire_time > NOW)
-- fragment: free = (ROW.hold_count = 0 OR ROW.expire_time <= NOW)
-- When the last lease ends or ended; 0: it was given back.
-- fragment: end = (CASE WHEN ROW.hold_count > 0 THEN ROW.expire_time ELSE 0 END)

-- A waiter is a row of rowlock_waiters whose expire_time is later than rowlock_now(), and whose ticket
-- is above the one that the lock was last taken by. wait_until of a lock is not earlier than the end of
-- any of its waiters: as long as it has passed, nobody needs to look for them.

-- Who stands in the way? The first row says it: somebody else who holds the lock; or, if nobody does,
-- the first waiter that comes before us, of whom we get no name but the life that is left. No row: it
-- can be had. Reads only, so that asking for a busy lock takes no write lock and writes nothing.
--   ?1 name  ?2 owner  ?3 only tickets below this one come before
-- name: peek
SELECT l.owner,
       l.fence,
       l.expire_time - rowlock_now() AS remaining,
       0                             AS is_queue
  FROM rowlock_locks AS l
 WHERE l.name = ?1
   AND l.owner <> ?2
   AND {live l rowlock_now()}
 UNION ALL
SELECT *
  FROM (SELECT '', 0, w.expire_time - rowlock_now(), 1
          FROM rowlock_waiters AS w
          LEFT JOIN rowlock_locks AS l
            ON l.name = w.name
         WHERE w.name = ?1
           AND w.ticket < ?3
           AND w.expire_time > rowlock_now()
           AND (l.name IS NULL OR ({free l rowlock_now()} AND w.ticket > l.ticket))
         ORDER BY w.ticket
         LIMIT 1);

-- Takes an absent lock, or a free one if nobody comes before; or counts one more hold of the owner's
-- own. No row: it cannot be had. A row counts only after the statement has ended without error: then it
-- commits. Whether somebody waits for an absent lock is for `peek` to say: there is no row to be
-- looked at, and one who has begun to wait since then has come later. A new row is marked as waited
-- for, if ?8 says that there may be waiters.
--   ?1 name  ?2 owner  ?3 attempt  ?4 ttl in us  ?5 note  ?6 ticket, 0: none
--   ?7 only tickets below this one come before  ?8 there may be waiters
-- name: acquire
INSERT INTO rowlock_locks AS l
       (name, owner, fence, hold_count, attempt, acquire_time, expire_time, note, ticket, wait_until)
VALUES (?1, ?2, rowlock_fence(), 1, ?3, rowlock_now(), rowlock_now() + ?4, ?5, ?6,
        CASE WHEN ?8 THEN (SELECT coalesce(max(w.expire_time), 0)
                             FROM rowlock_waiters AS w
                            WHERE w.name = ?1)
             ELSE 0 END)
    ON CONFLICT (name) DO UPDATE
   SET owner        = excluded.owner,
       fence        = CASE WHEN {live l rowlock_now()} THEN l.fence
                           ELSE max(l.fence + 1, rowlock_fence()) END,
       hold_count   = CASE WHEN {free l rowlock_now()} THEN 1
                           WHEN l.attempt = excluded.attempt THEN l.hold_count
                           ELSE l.hold_count + 1 END,
       attempt      = excluded.attempt,
       acquire_time = CASE WHEN {live l rowlock_now()} THEN l.acquire_time
                           ELSE rowlock_now() END,
       expire_time  = CASE WHEN {live l rowlock_now()} THEN max(l.expire_time, excluded.expire_time)
                           ELSE excluded.expire_time END,
       note         = CASE WHEN {live l rowlock_now()} AND excluded.note = '' THEN l.note
                           ELSE excluded.note END,
       ticket       = max(l.ticket, excluded.ticket)
 WHERE CASE WHEN {live l rowlock_now()} THEN l.owner = excluded.owner
            WHEN l.wait_until <= rowlock_now() THEN 1
            ELSE NOT EXISTS (SELECT 1
                               FROM rowlock_waiters AS w
                              WHERE w.name = ?1
                                AND w.ticket > l.ticket
                                AND w.ticket < ?7
                                AND w.expire_time > rowlock_now()) END
RETURNING hold_count, fence, expire_time - rowlock_now() AS remaining;

-- Extends a lease that is still alive, never shortens it, never brings one back. No row: lost.
--   ?1 name  ?2 owner  ?3 fence  ?4 ttl in us
-- name: renew
UPDATE rowlock_locks
   SET expire_time = max(expire_time, rowlock_now() + ?4)
 WHERE name = ?1
   AND owner = ?2
   AND fence = ?3
   AND {live rowlock_locks rowlock_now()}
RETURNING hold_count, fence, expire_time - rowlock_now() AS remaining;

-- One hold less. A repeated call, known by its attempt, changes nothing; nor does one that expects
-- another attempt (?5, NULL: any) than the row has. No row: lost, or so.
--   ?1 name  ?2 owner  ?3 fence  ?4 attempt  ?5 attempt seen last
-- name: release
UPDATE rowlock_locks
   SET hold_count  = CASE WHEN attempt = ?4 THEN hold_count ELSE hold_count - 1 END,
       expire_time = CASE WHEN attempt <> ?4 AND hold_count = 1 THEN rowlock_now()
                          ELSE expire_time END,
       attempt     = ?4
 WHERE name = ?1
   AND owner = ?2
   AND fence = ?3
   AND (attempt = ?4
        OR ({live rowlock_locks rowlock_now()}
            AND (?5 IS NULL OR attempt = ?5)))
RETURNING hold_count, fence, expire_time - rowlock_now() AS remaining;

-- The attempt of a live tenure, after a release of it that did nothing.
--   ?1 name  ?2 owner  ?3 fence
-- name: release_seen
SELECT attempt
  FROM rowlock_locks
 WHERE name = ?1
   AND owner = ?2
   AND fence = ?3
   AND {live rowlock_locks rowlock_now()};

-- Ends a live lock, whoever holds it. The risen fence refuses the old holder.
-- No row: nobody holds it.
--   ?1 name  ?2 fence of the tenure, 0: any  ?3 attempt
-- name: force_release
UPDATE rowlock_locks
   SET fence       = CASE WHEN attempt = ?3 THEN fence ELSE max(fence + 1, rowlock_fence()) END,
       expire_time = CASE WHEN attempt = ?3 THEN expire_time ELSE rowlock_now() END,
       hold_count  = 0,
       attempt     = ?3
 WHERE name = ?1
   AND (attempt = ?3 OR ({live rowlock_locks rowlock_now()} AND (?2 = 0 OR fence = ?2)))
RETURNING hold_count, fence, expire_time - rowlock_now() AS remaining;

-- The next rows in byte order, and whether they have been free for long. A fence near the clock or
-- ahead of it keeps its row: all others are below the floor. Reads only: the table may be long, and whoever
-- wants to write need not wait while it is searched.
--   ?1 retention in us  ?2 behind this name
-- name: reap_find
SELECT name,
       expire_time < rowlock_now() - ?1 AND fence < rowlock_now() - ?1 AS is_dead
  FROM rowlock_locks
 WHERE name > ?2
 ORDER BY name;

-- Deletes one of them, unless it has been used since.
--   ?1 retention in us  ?2 name
-- name: reap
DELETE FROM rowlock_locks
 WHERE name = ?2
   AND expire_time < rowlock_now() - ?1
   AND fence < rowlock_now() - ?1;

-- Before that, the tickets that are past because this row says so.
--   ?1 retention in us  ?2 name
-- name: reap_past
DELETE FROM rowlock_waiters
 WHERE name = ?2
   AND ticket <= (SELECT l.ticket
                    FROM rowlock_locks AS l
                   WHERE l.name = ?2
                     AND l.expire_time < rowlock_now() - ?1
                     AND l.fence < rowlock_now() - ?1);

-- Are there tickets whose life ended long ago? Reads only.
--   ?1 how long ago in us
-- name: reap_tickets_find
SELECT 1
  FROM rowlock_waiters
 WHERE expire_time < rowlock_now() - ?1
 LIMIT 1;

-- Deletes some of them.
--   ?1 how long ago in us  ?2 at most so many
-- name: reap_tickets
DELETE FROM rowlock_waiters
 WHERE (name, ticket) IN (SELECT name, ticket
                            FROM rowlock_waiters
                           WHERE expire_time < rowlock_now() - ?1
                           LIMIT ?2);

-- A page of rows in byte order.
--   ?1 from this name  ?2 up to, without, this one  ?3 free rows, too  ?4 at most so many
-- name: list
SELECT name,
       owner,
       note,
       fence,
       hold_count,
       rowlock_now() - acquire_time AS held,
       CASE WHEN hold_count > 0 THEN expire_time - rowlock_now()
            ELSE min(expire_time - rowlock_now(), 0) END AS remaining
  FROM rowlock_locks
 WHERE name >= ?1
   AND name < ?2
   AND (?3 OR {live rowlock_locks rowlock_now()})
 ORDER BY name
 LIMIT ?4;

-- name: schema_version
SELECT coalesce(max(version), 0)
  FROM rowlock_schema;

-- The clock of the running boot. rowlock_now() asks this, in the transaction of its statement.
-- name: clock_read
SELECT boot_offset, boot, floor_time
  FROM rowlock_clock
 WHERE id = 1;

-- First use after a boot: from then on the clock is the time since boot plus a fixed offset. It
-- starts at the wall clock, or later if that has been put back: never below any fence it has given.
--   ?1 boot id  ?2 wall clock in us  ?3 time since boot in us  ?4 how far ahead the floor is
-- name: clock_set
INSERT INTO rowlock_clock (id, boot, boot_offset, floor_time)
SELECT 1, ?1, t.start - ?3, t.start + ?4
  FROM (SELECT max(?2, 1 + max(coalesce((SELECT max(fence)        FROM rowlock_locks), 0),
                               coalesce((SELECT max(acquire_time) FROM rowlock_locks), 0),
                               coalesce((SELECT floor_time FROM rowlock_clock WHERE id = 1), 0)))
               AS start) AS t
 WHERE true
    ON CONFLICT (id) DO UPDATE
   SET boot        = excluded.boot,
       boot_offset = excluded.boot_offset,
       floor_time  = excluded.floor_time;

-- ... and whoever held a lock died with the machine.
--   ?1 now
-- name: clock_free
UPDATE rowlock_locks
   SET expire_time = ?1,
       hold_count  = 0
 WHERE expire_time > ?1;

-- ... and so did whoever waited for one.
-- name: clock_free_queue
DELETE FROM rowlock_waiters;

-- The time has reached the floor: it is raised, and synced, before another fence is made.
--   ?1 now  ?2 how far ahead the floor is
-- name: clock_floor
UPDATE rowlock_clock
   SET floor_time = ?1 + ?2
 WHERE id = 1
   AND floor_time <= ?1;

-- One snapshot for the looks before a batch.
-- name: begin_read
BEGIN DEFERRED;

-- IMMEDIATE takes the write lock at once: a transaction never fails half way for want of it.
-- name: begin_write
BEGIN IMMEDIATE;

-- name: commit
COMMIT;

-- name: rollback
ROLLBACK;

-- Zero: the file is new.
-- name: page_count
PRAGMA page_count;

-- name: journal_wal
PRAGMA journal_mode = WAL;

-- name: journal_mode
PRAGMA journal_mode;

-- name: sync_normal
PRAGMA synchronous = NORMAL;

-- name: sync_full
PRAGMA synchronous = FULL;

-- ---- Transaction mode and the guard ----
--
-- These run on connections of the application's, too, where there is no rowlock_now(): the time is
-- a parameter, read from rowlock_clock in the same transaction once it has the write lock.

-- Takes the write lock and changes nothing: there is no such row.
-- name: tx_write
UPDATE rowlock_clock
   SET floor_time = floor_time
 WHERE id = 0;

-- A row: a lease lives, whoever holds it.
--   ?1 name  ?2 now
-- name: tx_look
SELECT owner,
       fence,
       expire_time - ?2 AS remaining
  FROM rowlock_locks
 WHERE name = ?1
   AND {live rowlock_locks ?2};

-- A new tenure, which lasts as long as the transaction: as a lease it has ended already. A new row is
-- marked as waited for, if it is.
--   ?1 name  ?2 owner  ?3 attempt  ?4 now
-- name: tx_take
INSERT INTO rowlock_locks AS l
       (name, owner, fence, hold_count, attempt, acquire_time, expire_time, wait_until)
VALUES (?1, ?2, ?4, 0, ?3, ?4, ?4, (SELECT coalesce(max(w.expire_time), 0)
                                      FROM rowlock_waiters AS w
                                     WHERE w.name = ?1))
    ON CONFLICT (name) DO UPDATE
   SET owner        = excluded.owner,
       fence        = max(l.fence + 1, excluded.fence),
       hold_count   = 0,
       attempt      = excluded.attempt,
       acquire_time = excluded.acquire_time,
       expire_time  = excluded.expire_time,
       note         = ''
 WHERE {free l ?4}
RETURNING fence;

-- A row: this tenure is alive.
--   ?1 name  ?2 owner  ?3 fence  ?4 now
-- name: tenure
SELECT 1
  FROM rowlock_locks
 WHERE name = ?1
   AND owner = ?2
   AND fence = ?3
   AND {live rowlock_locks ?4};

-- Around the writes, so that all of them can be undone and nothing else.
-- name: tx_savepoint
SAVEPOINT rowlock_call;

-- name: tx_undo
ROLLBACK TO rowlock_call;

-- name: tx_keep
RELEASE rowlock_call;

-- Stays open in a transaction of the library's, whatever the application does in it. If it is gone
-- at the end, so is the transaction that had the locks.
-- name: tx_mark
SAVEPOINT rowlock_tx;

-- name: tx_unmark
RELEASE rowlock_tx;

-- What the application has attached: number, name, file.
-- name: databases
PRAGMA database_list;

-- What the application has set, to be set again. 0 if it has a busy handler of its own.
-- name: busy_timeout
PRAGMA busy_timeout;

-- ---- The queue ----

-- The next ticket for a name: the time, or more if there are higher ones. Under the write lock.
--   ?1 name
-- name: queue_next
SELECT max(rowlock_now(),
           1 + coalesce((SELECT max(ticket) FROM rowlock_waiters WHERE name = ?1), 0),
           1 + coalesce((SELECT ticket      FROM rowlock_locks   WHERE name = ?1), 0));

-- Takes away some of the dead.
--   ?1 name  ?2 at most so many
-- name: queue_clean
DELETE FROM rowlock_waiters
 WHERE name = ?1
   AND ticket IN (SELECT ticket
                    FROM rowlock_waiters
                   WHERE name = ?1
                     AND expire_time <= rowlock_now()
                   LIMIT ?2);

--   ?1 name  ?2 ticket  ?3 life in us  ?4 owner  ?5 process
-- name: queue_join
INSERT INTO rowlock_waiters (name, ticket, owner, since_time, expire_time, process)
VALUES (?1, ?2, ?4, rowlock_now(), rowlock_now() + ?3, ?5);

-- A ticket that lives goes on living. None comes back.
--   ?1 name  ?2 ticket  ?3 life in us
-- name: queue_keep
UPDATE rowlock_waiters
   SET expire_time = rowlock_now() + ?3
 WHERE name = ?1
   AND ticket = ?2
   AND expire_time > rowlock_now();

-- Marks a lock as waited for.
--   ?1 name  ?3 life in us
-- name: queue_mark
UPDATE rowlock_locks
   SET wait_until = max(wait_until, rowlock_now() + ?3)
 WHERE name = ?1;

--   ?1 name  ?2 ticket
-- name: queue_leave
DELETE FROM rowlock_waiters
 WHERE name = ?1
   AND ticket = ?2;

-- Where does a ticket stand? One row: whether it lives; the lease that lives, whosesoever, and whether it
-- is the owner's or this very attempt's; how many come before, counted up to ?5; and the life that is
-- left of the one right before.
--   ?1 name  ?2 ticket  ?3 owner  ?4 attempt  ?5 at most so many
-- name: queue_look
SELECT EXISTS (SELECT 1
                 FROM rowlock_waiters AS w
                WHERE w.name = ?1
                  AND w.ticket = ?2
                  AND w.expire_time > rowlock_now()) AS is_there,
       l.owner,
       l.fence,
       {end l} - rowlock_now()       AS remaining,
       l.owner = ?3                  AS is_own,
       l.attempt = ?4                AS is_attempt,
       (SELECT count(*)
          FROM (SELECT 1
                  FROM rowlock_waiters AS w
                 WHERE w.name = ?1
                   AND w.ticket > coalesce(l.ticket, 0)
                   AND w.ticket < ?2
                   AND w.expire_time > rowlock_now()
                 LIMIT ?5))          AS place,
       (SELECT w.expire_time - rowlock_now()
          FROM rowlock_waiters AS w
         WHERE w.name = ?1
           AND w.ticket > coalesce(l.ticket, 0)
           AND w.ticket < ?2
           AND w.expire_time > rowlock_now()
         ORDER BY w.ticket DESC
         LIMIT 1)                    AS life_before
  FROM (SELECT 1)
  LEFT JOIN rowlock_locks AS l ON l.name = ?1;

-- The first waiter before a ticket, and which process it is.
--   ?1 name  ?2 ticket
-- name: queue_first
SELECT w.ticket, w.process
  FROM rowlock_waiters AS w
 WHERE w.name = ?1
   AND w.ticket > coalesce((SELECT l.ticket FROM rowlock_locks AS l WHERE l.name = ?1), 0)
   AND w.ticket < ?2
   AND w.expire_time > rowlock_now()
 ORDER BY w.ticket
 LIMIT 1;

-- A page of waiters, by name and ticket.
--   ?1, ?2 after this name and ticket  ?3 up to, without, this name  ?4 at most so many
-- name: waiters
SELECT w.name,
       w.ticket,
       w.owner,
       rowlock_now() - w.since_time  AS waited,
       w.expire_time - rowlock_now() AS remaining,
       CASE WHEN {live l rowlock_now()} THEN l.owner END AS holder
  FROM rowlock_waiters AS w
  LEFT JOIN rowlock_locks AS l
    ON l.name = w.name
 WHERE w.ticket > coalesce(l.ticket, 0)
   AND (w.name, w.ticket) > (?1, ?2)
   AND w.name < ?3
   AND w.expire_time > rowlock_now()
 ORDER BY w.name, w.ticket
 LIMIT ?4;

-- A number that changes when another connection has committed.
-- name: data_version
PRAGMA data_version;

-- How many tables in the file are not ours (?1: our prefix), how many triggers are on ours, and how many
-- bytes it has.
-- name: diagnose_file
SELECT (SELECT COUNT(*)
          FROM sqlite_schema AS t
         WHERE t.type = 'table'
           AND t.name NOT LIKE 'sqlite%'
           AND t.name NOT IN (?1 || 'locks', ?1 || 'waiters', ?1 || 'schema', ?1 || 'clock')),
       (SELECT COUNT(*)
          FROM sqlite_schema AS t
         WHERE t.type = 'trigger'
           AND t.tbl_name IN (?1 || 'locks', ?1 || 'waiters', ?1 || 'schema', ?1 || 'clock')),
       (SELECT c.page_count * s.page_size
          FROM pragma_page_count AS c, pragma_page_size AS s);

-- name: diagnose_pages
PRAGMA quick_check(1);
