-- Views that show no lock without a hold. The floor of the fences is rowlock_clock.floor_time, as before:
-- from now on it is always ahead of the clock, on the disk before any time below it is used.
DROP VIEW rowlock_queue;
DROP VIEW rowlock_held;

CREATE VIEW rowlock_held AS
SELECT CAST(l.name AS TEXT)                                          AS name,
       l.owner,
       l.fence,
       l.hold_count,
       datetime(l.acquire_time / 1000000, 'unixepoch')               AS acquired_utc,
       datetime(l.expire_time / 1000000, 'unixepoch')                AS expires_utc,
       round(l.expire_time / 1000000.0
             - (julianday('now') - 2440587.5) * 86400.0, 3)          AS seconds_left,
       l.note
  FROM rowlock_locks AS l
 WHERE l.hold_count > 0
   AND l.expire_time / 1000000.0 > (julianday('now') - 2440587.5) * 86400.0;

CREATE VIEW rowlock_queue AS
SELECT CAST(w.name AS TEXT)                                          AS name,
       row_number() OVER (PARTITION BY w.name ORDER BY w.ticket)     AS place,
       w.owner,
       datetime(w.since_time / 1000000, 'unixepoch')                 AS since_utc,
       round((julianday('now') - 2440587.5) * 86400.0
             - w.since_time / 1000000.0, 3)                          AS seconds_waited,
       CASE WHEN l.hold_count > 0
             AND l.expire_time / 1000000.0 > (julianday('now') - 2440587.5) * 86400.0
            THEN l.owner END                                         AS holder
  FROM rowlock_waiters AS w
  LEFT JOIN rowlock_locks AS l
    ON l.name = w.name
 WHERE w.ticket > coalesce(l.ticket, 0)
   AND w.expire_time / 1000000.0 > (julianday('now') - 2440587.5) * 86400.0;

INSERT INTO rowlock_schema (version) VALUES (3);
