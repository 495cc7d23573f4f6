-- The queue: who waits for which lock, and the view for people. Each statement may be run again.
--
-- The lower ticket comes first. A ticket is kept alive by whoever waits with it; it orders those
-- who wait and never decides who owns a lock.
CREATE TABLE IF NOT EXISTS rowlock_waiters (
    name        VARBINARY(255) NOT NULL,
    ticket      BIGINT         NOT NULL,
    owner       VARBINARY(255) NOT NULL,
    since_time  BIGINT         NOT NULL,
    expire_time BIGINT         NOT NULL,
    has_bell    TINYINT        NOT NULL,
    PRIMARY KEY (name, ticket)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE OR REPLACE VIEW rowlock_queue AS
SELECT CONVERT(w.name USING utf8mb4)                                           AS name,
       ROW_NUMBER() OVER (PARTITION BY w.name ORDER BY w.ticket)               AS place,
       CONVERT(w.owner USING utf8mb4)                                          AS owner,
       TIMESTAMPADD(MICROSECOND, w.since_time, '1970-01-01 00:00:00.000000')   AS since_utc,
       (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - w.since_time) / 1000000
                                                                               AS seconds_waited,
       IF(l.hold_count > 0
          AND l.expire_time > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
          CONVERT(l.owner USING utf8mb4), NULL)                                AS holder
  FROM rowlock_waiters AS w
  LEFT JOIN rowlock_locks AS l
    ON l.name = w.name
 WHERE w.ticket > COALESCE(l.ticket, 0)
   AND w.expire_time > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));

INSERT IGNORE INTO rowlock_schema (version) VALUES (2);
