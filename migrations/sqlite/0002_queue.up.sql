-- The queue: who waits for which lock, and the view for people.
--
-- The lower ticket comes first. A ticket is kept alive by whoever waits with it; it orders those
-- who wait and never decides who owns a lock. `process` tells the others on this host whether the one
-- who waits is still there: the number of its pid namespace, its pid and when it was started; empty if
-- that could not be known.
CREATE TABLE rowlock_waiters (
    name        BLOB    NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
    ticket      INTEGER NOT NULL,
    owner       TEXT    NOT NULL,
    since_time  INTEGER NOT NULL,
    expire_time INTEGER NOT NULL,
    process     TEXT    NOT NULL DEFAULT '',
    PRIMARY KEY (name, ticket)
) WITHOUT ROWID;

CREATE VIEW rowlock_queue AS
SELECT CAST(w.name AS TEXT)                                          AS name,
       row_number() OVER (PARTITION BY w.name ORDER BY w.ticket)     AS place,
       w.owner,
       datetime(w.since_time / 1000000, 'unixepoch')                 AS since_utc,
       round((julianday('now') - 2440587.5) * 86400.0
             - w.since_time / 1000000.0, 3)                          AS seconds_waited,
       CASE WHEN l.expire_time / 1000000.0 > (julianday('now') - 2440587.5) * 86400.0
            THEN l.owner END                                         AS holder
  FROM rowlock_waiters AS w
  LEFT JOIN rowlock_locks AS l
    ON l.name = w.name
 WHERE w.ticket > coalesce(l.ticket, 0)
   AND w.expire_time / 1000000.0 > (julianday('now') - 2440587.5) * 86400.0;

INSERT INTO rowlock_schema (version) VALUES (2);
