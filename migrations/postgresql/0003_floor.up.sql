-- The floor of the fences, and views that show no lock without a hold.
--
-- No row is deleted before its fence is here, and no row is made with a fence that is not above it: so
-- fences rise although the rows that knew them are gone, whichever way the server's clock is set. It is a
-- sequence because a statement reads the present value of one, not that of its snapshot. Rows that were
-- deleted before had fences below the clock of that time.
CREATE SEQUENCE rowlock_floor MINVALUE 0 START 0;

SELECT setval('rowlock_floor', greatest((extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
                                        (SELECT max(l.fence) FROM rowlock_locks AS l)));

CREATE OR REPLACE VIEW rowlock_held AS
SELECT encode(l.name, 'escape')                                       AS name,
       l.owner,
       l.fence,
       l.hold_count,
       to_timestamp(l.acquire_time / 1000000.0)                       AS acquired,
       to_timestamp(l.expire_time / 1000000.0)                        AS expires,
       to_timestamp(l.expire_time / 1000000.0) - clock_timestamp()    AS time_left,
       l.note
  FROM rowlock_locks AS l
 WHERE l.hold_count > 0
   AND l.expire_time > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

CREATE OR REPLACE VIEW rowlock_queue AS
SELECT encode(w.name, 'escape')                                    AS name,
       row_number() OVER (PARTITION BY w.name ORDER BY w.ticket)   AS place,
       w.owner,
       to_timestamp(w.since_time / 1000000.0)                      AS since,
       clock_timestamp() - to_timestamp(w.since_time / 1000000.0)  AS waited,
       CASE WHEN l.hold_count > 0
             AND l.expire_time > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
            THEN l.owner END                                       AS holder
  FROM rowlock_waiters AS w
  LEFT JOIN rowlock_locks AS l
    ON l.name = w.name
 WHERE w.ticket > coalesce(l.ticket, 0)
   AND w.expire_time > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

INSERT INTO rowlock_schema (version) VALUES (3);
