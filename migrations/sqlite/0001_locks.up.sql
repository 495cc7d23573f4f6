-- The table of locks, the version table, the clock and the view for people.
--
-- Times are microseconds since 1970 by a clock that cannot jump: the host's time since boot plus an
-- offset that is fixed when the file is first used after a boot (rowlock_clock). A new boot frees
-- every lock, because whoever held one died with the machine. No boot's clock starts below
-- floor_time, which the reaper raises, so that fences keep rising although the rows that knew them
-- are gone.
CREATE TABLE rowlock_locks (
    name         BLOB    NOT NULL PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 255),
    owner        TEXT    NOT NULL,
    fence        INTEGER NOT NULL,
    hold_count   INTEGER NOT NULL,
    attempt      BLOB    NOT NULL,
    acquire_time INTEGER NOT NULL,
    expire_time  INTEGER NOT NULL,
    wait_until   INTEGER NOT NULL DEFAULT 0,
    ticket       INTEGER NOT NULL DEFAULT 0,
    note         TEXT    NOT NULL DEFAULT ''
) WITHOUT ROWID;

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
 WHERE l.expire_time / 1000000.0 > (julianday('now') - 2440587.5) * 86400.0;

CREATE TABLE rowlock_clock (
    id          INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    boot        TEXT    NOT NULL,
    boot_offset INTEGER NOT NULL,
    floor_time  INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE rowlock_schema (
    version INTEGER NOT NULL PRIMARY KEY
);

INSERT INTO rowlock_schema (version) VALUES (1);
