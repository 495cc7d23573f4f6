-- The table of locks, the version table and the view for people.
--
-- name is the only index, and rows are updated in place: with room on each page (fillfactor) an
-- update stays on its page and touches no index at all (a heap-only update). An index on
-- expire_time would end that. Times are microseconds since 1970 by this server's clock. Names have 1 to
-- 255 bytes; a CHECK of that would be read anew, as text, by every statement that writes here.
CREATE TABLE rowlock_locks (
    name         bytea   NOT NULL PRIMARY KEY,
    owner        text    COLLATE "C" NOT NULL,
    fence        bigint  NOT NULL,
    hold_count   integer NOT NULL,
    attempt      uuid    NOT NULL,
    acquire_time bigint  NOT NULL,
    expire_time  bigint  NOT NULL,
    wait_until   bigint  NOT NULL DEFAULT 0,
    ticket       bigint  NOT NULL DEFAULT 0,
    note         text    NOT NULL DEFAULT ''
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE VIEW rowlock_held AS
SELECT encode(l.name, 'escape')                                       AS name,
       l.owner,
       l.fence,
       l.hold_count,
       to_timestamp(l.acquire_time / 1000000.0)                       AS acquired,
       to_timestamp(l.expire_time / 1000000.0)                        AS expires,
       to_timestamp(l.expire_time / 1000000.0) - clock_timestamp()    AS time_left,
       l.note
  FROM rowlock_locks AS l
 WHERE l.expire_time > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

CREATE TABLE rowlock_schema (
    version integer NOT NULL PRIMARY KEY
);

INSERT INTO rowlock_schema (version) VALUES (1);
