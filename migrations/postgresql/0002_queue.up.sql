-- The queue: who waits for which lock, and the view for people.
--
-- The lower ticket comes first. A ticket is kept alive by whoever waits with it; it orders those
-- who wait and never decides who owns a lock. Rows come and go with every wait, so old ones are
-- cleared away early.
CREATE TABLE rowlock_waiters (
    name        bytea   NOT NULL,
    ticket      bigint  NOT NULL,
    owner       text    COLLATE "C" NOT NULL,
    since_time  bigint  NOT NULL,
    expire_time bigint  NOT NULL,
    has_bell    boolean NOT NULL,
    PRIMARY KEY (name, ticket)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE VIEW rowlock_queue AS
SELECT encode(w.name, 'escape')                                    AS name,
       row_number() OVER (PARTITION BY w.name ORDER BY w.ticket)   AS place,
       w.owner,
       to_timestamp(w.since_time / 1000000.0)                      AS since,
       clock_timestamp() - to_timestamp(w.since_time / 1000000.0)  AS waited,
       CASE WHEN l.expire_time > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
            THEN l.owner END                                       AS holder
  FROM rowlock_waiters AS w
  LEFT JOIN rowlock_locks AS l
    ON l.name = w.name
 WHERE w.ticket > coalesce(l.ticket, 0)
   AND w.expire_time > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

INSERT INTO rowlock_schema (version) VALUES (2);
