-- The floor of the fences, and a view that shows no lock without a hold. Each statement may be run again.
--
-- No row is deleted before its fence is here, and no row is made with a fence that is not above it: so
-- fences rise although the rows that knew them are gone, whichever way the server's clock is set. Rows that
-- were deleted before had fences below the clock of that time.
CREATE TABLE IF NOT EXISTS rowlock_floor (
    id    TINYINT NOT NULL,
    fence BIGINT  NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB;

INSERT IGNORE INTO rowlock_floor (id, fence)
SELECT 1, GREATEST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
                   COALESCE(MAX(l.fence), 0))
  FROM rowlock_locks AS l;

CREATE OR REPLACE VIEW rowlock_held AS
SELECT CONVERT(l.name USING utf8mb4)                                      AS name,
       CONVERT(l.owner USING utf8mb4)                                     AS owner,
       l.fence,
       l.hold_count,
       TIMESTAMPADD(MICROSECOND, l.acquire_time, '1970-01-01 00:00:00.000000') AS acquired_utc,
       TIMESTAMPADD(MICROSECOND, l.expire_time, '1970-01-01 00:00:00.000000')  AS expires_utc,
       (l.expire_time - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))) / 1000000
                                                                          AS seconds_left,
       CONVERT(l.note USING utf8mb4)                                      AS note
  FROM rowlock_locks AS l
 WHERE l.hold_count > 0
   AND l.expire_time > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));

INSERT IGNORE INTO rowlock_schema (version) VALUES (3);
