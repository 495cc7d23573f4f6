-- The table of locks, the version table and the view for people; MySQL 8+, MariaDB 10.6+.
--
-- name is the primary key, in bytes, and the only index: a second one would make InnoDB take
-- next-key locks and deadlock. Rows are kept on release and updated in place. Times are
-- microseconds since 1970 by this server's clock. Each statement may be run again.
CREATE TABLE IF NOT EXISTS rowlock_locks (
    name         VARBINARY(255)  NOT NULL,
    owner        VARBINARY(255)  NOT NULL,
    fence        BIGINT          NOT NULL,
    hold_count   INT             NOT NULL,
    attempt      BINARY(16)      NOT NULL,
    acquire_time BIGINT          NOT NULL,
    expire_time  BIGINT          NOT NULL,
    wait_until   BIGINT          NOT NULL DEFAULT 0,
    ticket       BIGINT          NOT NULL DEFAULT 0,
    note         VARBINARY(1000) NOT NULL DEFAULT '',
    PRIMARY KEY (name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

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
 WHERE l.expire_time > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));

CREATE TABLE IF NOT EXISTS rowlock_schema (
    version INT NOT NULL,
    PRIMARY KEY (version)
) ENGINE = InnoDB;

INSERT IGNORE INTO rowlock_schema (version) VALUES (1);
