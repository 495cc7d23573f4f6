-- The statements of the PostgreSQL driver.
--
-- Each runs alone in its own transaction, READ COMMITTED, in one round trip, for any number of
-- locks: parameters that end in [] are parallel arrays, sorted by name. Rows are locked in that
-- order, so that two batches cannot deadlock. Time is clock_timestamp() in microseconds since 1970:
-- now() would be the time at which the transaction began, before a row lock was waited for.
--
-- MATERIALIZED is not for speed: such a part is computed once, and who reads it comes after it.
-- LATERAL and "= ANY (ARRAY[w.name])" are: rows are fetched by their key, one by one, in the order of the
-- arrays. As a plain join on equal names, with the statistics of a table that was nearly empty when it
-- was last looked at, each may be compared with each.

-- name: acquire
-- $1 names[]  $2 owners[]  $3 notes[]  $4 ttls[] in us  $5 attempts[]
-- $6 all or none  $7 pass over rows that somebody keeps locked instead of waiting for them
WITH want AS MATERIALIZED (
    SELECT w.name, w.owner, w.note, w.ttl, w.attempt
      FROM unnest($1::bytea[], $2::text[], $3::text[], $4::bigint[], $5::uuid[])
        AS w (name, owner, note, ttl, attempt)
-- For a first look: a lease that ends after this counts as live, and is tried again if it matters.
), early AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
-- All or none, and one is plainly held: then lock nothing at all.
), barred AS MATERIALIZED (
    SELECT $6::boolean AND EXISTS (
        SELECT FROM want AS w
          JOIN rowlock_locks AS l ON l.name = ANY (ARRAY[w.name])
         WHERE l.owner <> w.owner AND l.expire_time > (SELECT now FROM early)
    ) AS is_barred
-- Rows that look free or are the owner's own are locked, and looked at again under the lock.
), waited AS MATERIALIZED (
    SELECT w.*
      FROM want AS w
     CROSS JOIN LATERAL (
            SELECT FROM rowlock_locks AS l
             WHERE l.name = ANY (ARRAY[w.name])
               AND NOT $7::boolean
               AND NOT (SELECT is_barred FROM barred)
               AND (l.owner = w.owner OR l.expire_time <= (SELECT now FROM early))
               FOR NO KEY UPDATE) AS l
), passed AS MATERIALIZED (
    SELECT w.*
      FROM want AS w
     CROSS JOIN LATERAL (
            SELECT FROM rowlock_locks AS l
             WHERE l.name = ANY (ARRAY[w.name])
               AND $7
               AND NOT (SELECT is_barred FROM barred)
               AND (l.owner = w.owner OR l.expire_time <= (SELECT now FROM early))
               FOR NO KEY UPDATE SKIP LOCKED) AS l
), locked AS (
    SELECT * FROM waited UNION ALL SELECT * FROM passed
), absent AS MATERIALIZED (
    SELECT w.*
      FROM want AS w
     WHERE NOT EXISTS (SELECT FROM rowlock_locks AS l WHERE l.name = ANY (ARRAY[w.name]))
     ORDER BY w.name
-- Nothing is written before every lock is held: count(*) has seen them all.
), gate AS MATERIALIZED (
    SELECT NOT $6 OR count(*) = cardinality($1) AS is_open
      FROM (SELECT FROM locked UNION ALL SELECT FROM absent) AS c
-- The clock is read for each row as it is inserted, and again when it is in.
), made AS (
    INSERT INTO rowlock_locks
           (name, owner, fence, hold_count, attempt, acquire_time, expire_time, note)
    SELECT w.name, w.owner, c.now, 1, w.attempt, c.now, c.now + w.ttl, w.note
      FROM absent AS w
     CROSS JOIN LATERAL (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
                          WHERE w.name IS NOT NULL OFFSET 0) AS c
     WHERE (SELECT is_open FROM gate)
        ON CONFLICT (name) DO NOTHING
    RETURNING name, fence, hold_count, expire_time - acquire_time AS ttl,
              extract(epoch FROM clock_timestamp()) * 1000000 - acquire_time > 1000000 AS is_late
-- Inserts come before this: they wait for rows that others have changed, but not for rows that are
-- only locked, so that two batches that see different rows as absent cannot deadlock.
), clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now, count(*)
      FROM made
), taken AS (
    UPDATE rowlock_locks AS l
       SET owner        = w.owner,
           attempt      = w.attempt,
           expire_time  = greatest(l.expire_time, c.now + w.ttl),
           fence        = CASE WHEN l.owner = w.owner AND l.expire_time > c.now THEN l.fence
                               ELSE greatest(l.fence + 1, c.now) END,
           hold_count   = CASE WHEN NOT (l.owner = w.owner AND l.expire_time > c.now) THEN 1
                               WHEN l.attempt = w.attempt THEN l.hold_count
                               ELSE l.hold_count + 1 END,
           acquire_time = CASE WHEN l.owner = w.owner AND l.expire_time > c.now THEN l.acquire_time
                               ELSE c.now END,
           note         = CASE WHEN l.owner = w.owner AND l.expire_time > c.now AND w.note = ''
                               THEN l.note ELSE w.note END
      FROM locked AS w
     CROSS JOIN clock AS c
     WHERE l.name = ANY (ARRAY[w.name])
       AND (SELECT is_open FROM gate)
    RETURNING l.name, l.fence, l.hold_count, l.expire_time - c.now AS ttl
)
SELECT name, true AS acquired, fence, hold_count, ttl AS remaining, NULL AS holder
  FROM taken
 UNION ALL
-- An insert that had to wait carries a clock, and so a fence, from before. If a tenure of somebody
-- else's came and was reaped since, its fence would be larger: the cast fails and undoes it all.
SELECT name, true,
       CASE WHEN is_late THEN ('rowlock: slow, again: ' || name::text)::bigint ELSE fence END,
       hold_count, ttl, NULL
  FROM made
 UNION ALL
-- What was not had, with what can be seen of the row. If all were to be had, and one that somebody
-- made in the meantime is missing from them, the cast fails likewise.
SELECT w.name, false,
       CASE WHEN $6 AND (SELECT is_open FROM gate)
            THEN ('rowlock: raced, again: ' || w.name::text)::bigint ELSE l.fence END,
       l.hold_count, l.expire_time - (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
       l.owner
  FROM want AS w
  LEFT JOIN rowlock_locks AS l ON l.name = ANY (ARRAY[w.name])
 WHERE w.name NOT IN (SELECT name FROM taken UNION ALL SELECT name FROM made)

-- name: acquire_one
-- The same for one name, without a step that locks first: the UPDATE does. The usual case, cheaper.
-- $1 name  $2 owner  $3 note  $4 ttl in us  $5 attempt
WITH taken AS (
    UPDATE rowlock_locks AS l
       SET (owner, attempt, expire_time, fence, hold_count, acquire_time, note) = (
               SELECT $2::text,
                      $5::uuid,
                      greatest(l.expire_time, c.now + $4::bigint),
                      CASE WHEN c.goes_on THEN l.fence ELSE greatest(l.fence + 1, c.now) END,
                      CASE WHEN NOT c.goes_on THEN 1
                           WHEN l.attempt = $5::uuid THEN l.hold_count
                           ELSE l.hold_count + 1 END,
                      CASE WHEN c.goes_on THEN l.acquire_time ELSE c.now END,
                      CASE WHEN c.goes_on AND $3::text = '' THEN l.note ELSE $3::text END
                 FROM (SELECT t.now, l.owner = $2::text AND l.expire_time > t.now AS goes_on
                         FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
                                   AS now
                               OFFSET 0) AS t
                       OFFSET 0) AS c
           )
     WHERE l.name = $1::bytea
       AND (l.owner = $2::text
            OR l.expire_time <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
    RETURNING l.fence, l.hold_count, l.expire_time
), made AS (
    INSERT INTO rowlock_locks
           (name, owner, fence, hold_count, attempt, acquire_time, expire_time, note)
    SELECT $1::bytea, $2::text, c.now, 1, $5::uuid, c.now, c.now + $4::bigint, $3::text
      FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now OFFSET 0) AS c
     WHERE NOT EXISTS (SELECT FROM rowlock_locks AS l WHERE l.name = $1::bytea)
        ON CONFLICT (name) DO NOTHING
    RETURNING fence, hold_count, expire_time,
              extract(epoch FROM clock_timestamp()) * 1000000 - acquire_time > 1000000 AS is_late
), had AS (
    SELECT fence, hold_count, expire_time FROM taken
     UNION ALL
    SELECT CASE WHEN is_late THEN ('rowlock: slow, again: ' || fence::text)::bigint ELSE fence END,
           hold_count, expire_time
      FROM made
)
SELECT $1::bytea AS name, true AS acquired, fence, hold_count,
       expire_time - (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS remaining,
       NULL AS holder
  FROM had
 UNION ALL
SELECT $1::bytea, false, l.fence, l.hold_count,
       l.expire_time - (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
       l.owner
  FROM rowlock_locks AS l
 WHERE l.name = $1::bytea
   AND NOT EXISTS (SELECT FROM had)

-- name: renew
-- $1 names[]  $2 owners[]  $3 fences[]  $4 ttls[] in us
-- A row that a transaction has locked at this moment is passed over and answered as not renewed;
-- a lease that is not there, or not any more, is not answered at all.
WITH want AS MATERIALIZED (
    SELECT w.name, w.owner, w.fence, w.ttl
      FROM unnest($1::bytea[], $2::text[], $3::bigint[], $4::bigint[])
        AS w (name, owner, fence, ttl)
), locked AS MATERIALIZED (
    SELECT w.name, w.ttl
      FROM want AS w
     CROSS JOIN LATERAL (
            SELECT FROM rowlock_locks AS l
             WHERE l.name = ANY (ARRAY[w.name])
               AND l.owner = w.owner
               AND l.fence = w.fence
               AND l.expire_time > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
               FOR NO KEY UPDATE SKIP LOCKED) AS l
), clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now,
           count(*)                                                  AS locked_count
      FROM locked
), renewed AS (
    UPDATE rowlock_locks AS l
       SET expire_time = greatest(l.expire_time, c.now + w.ttl)
      FROM locked AS w
     CROSS JOIN clock AS c
     WHERE l.name = ANY (ARRAY[w.name])
       AND l.expire_time > c.now
    RETURNING l.name, l.hold_count, l.expire_time - c.now AS remaining
)
SELECT name, true AS renewed, hold_count, remaining
  FROM renewed
 UNION ALL
SELECT w.name, false, l.hold_count,
       l.expire_time - (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
  FROM want AS w
 CROSS JOIN LATERAL (
        SELECT l.hold_count, l.expire_time
          FROM rowlock_locks AS l
         WHERE l.name = ANY (ARRAY[w.name])
           AND l.owner = w.owner
           AND l.fence = w.fence
           AND l.expire_time > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
        OFFSET 0) AS l
 WHERE w.name NOT IN (SELECT name FROM renewed)

-- name: release
-- $1 names[]  $2 owners[]  $3 fences[]  $4 attempts[]
-- $5 seen[]: the attempt that the row must have, zero: any; if it has another one, that is answered
-- The commit is not waited for (synchronous_commit, for this transaction alone): a release that a
-- crash undoes runs out by itself.
WITH relaxed AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true) AS mode
), want AS MATERIALIZED (
    SELECT w.name, w.owner, w.fence, w.attempt, w.seen
      FROM unnest($1::bytea[], $2::text[], $3::bigint[], $4::uuid[], $5::uuid[])
        AS w (name, owner, fence, attempt, seen)
), locked AS MATERIALIZED (
    SELECT w.name, w.attempt, l.hold_count, l.expire_time, l.attempt AS found,
           l.attempt = w.attempt AS is_repeated,
           w.seen IN (l.attempt, '00000000-0000-0000-0000-000000000000') AS is_expected
      FROM relaxed
     CROSS JOIN want AS w
     CROSS JOIN LATERAL (
            SELECT l.hold_count, l.expire_time, l.attempt
              FROM rowlock_locks AS l
             WHERE l.name = ANY (ARRAY[w.name])
               AND l.owner = w.owner
               AND l.fence = w.fence
               FOR NO KEY UPDATE) AS l
), clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now,
           count(*)                                                  AS locked_count
      FROM locked
), released AS (
    UPDATE rowlock_locks AS l
       SET attempt     = w.attempt,
           hold_count  = l.hold_count - 1,
           expire_time = CASE WHEN l.hold_count = 1 THEN c.now ELSE l.expire_time END
      FROM locked AS w
     CROSS JOIN clock AS c
     WHERE l.name = ANY (ARRAY[w.name])
       AND NOT w.is_repeated
       AND w.is_expected
       AND l.hold_count > 0
       AND l.expire_time > c.now
    RETURNING l.name, l.hold_count
)
SELECT name, hold_count, NULL AS found
  FROM released
 UNION ALL
SELECT w.name, w.hold_count, CASE WHEN w.is_repeated THEN NULL ELSE w.found END
  FROM locked AS w
 CROSS JOIN clock AS c
 WHERE w.is_repeated
    OR (NOT w.is_expected AND w.hold_count > 0 AND w.expire_time > c.now)

-- name: release_one
-- The same for one name, cheaper. No answer may also mean that an earlier sending of this very call
-- was still under way: `release`, which looks under the lock, then tells.
-- $1 name  $2 owner  $3 fence  $4 attempt  $5 seen
WITH relaxed AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true) AS mode
), released AS (
    UPDATE rowlock_locks AS l
       SET attempt     = $4::uuid,
           hold_count  = l.hold_count - 1,
           expire_time = CASE WHEN l.hold_count = 1
                              THEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
                              ELSE l.expire_time END
      FROM relaxed
     WHERE l.name = $1::bytea
       AND l.owner = $2::text
       AND l.fence = $3::bigint
       AND l.attempt <> $4::uuid
       AND $5::uuid IN (l.attempt, '00000000-0000-0000-0000-000000000000')
       AND l.hold_count > 0
       AND l.expire_time > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
    RETURNING l.name, l.hold_count
)
SELECT name, hold_count, NULL AS found
  FROM released

-- name: force_release
-- $1 name  $2 fence of the tenure to end, 0: any  $3 attempt
WITH ended AS (
    UPDATE rowlock_locks AS l
       SET (fence, hold_count, expire_time, attempt) = (
               SELECT greatest(l.fence + 1, c.now), 0, c.now, $3::uuid
                 FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
                       OFFSET 0) AS c
           )
     WHERE l.name = $1::bytea
       AND l.attempt <> $3::uuid
       AND ($2::bigint = 0 OR l.fence = $2::bigint)
       AND l.expire_time > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
    RETURNING l.fence
)
SELECT fence
  FROM ended
 UNION ALL
SELECT l.fence
  FROM rowlock_locks AS l
 WHERE l.name = $1::bytea
   AND l.attempt = $3::uuid

-- name: reap
-- $1 retention in us  $2 at most so many rows
-- A row whose fence is not well below the clock stays: without it the fence could be given again.
-- The clock is read once: most rows of a large table are looked at in vain.
WITH relaxed AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true) AS mode
), clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - $1::bigint AS before
      FROM relaxed
), old AS MATERIALIZED (
    SELECT l.name
      FROM clock AS c
     CROSS JOIN rowlock_locks AS l
     WHERE l.expire_time < c.before
       AND l.fence < c.before
     ORDER BY l.name
     LIMIT $2::bigint
       FOR UPDATE OF l SKIP LOCKED
), reaped AS (
    DELETE FROM rowlock_locks AS l
     USING old AS o
     WHERE l.name = o.name
    RETURNING l.name
)
SELECT count(*) AS reaped
  FROM reaped

-- name: list
-- $1 first name  $2 name behind the last  $3 free rows, too  $4 at most so many rows
SELECT l.name, l.owner, l.note, l.fence, l.hold_count,
       c.now - l.acquire_time AS held,
       l.expire_time - c.now  AS remaining
  FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now OFFSET 0) AS c
 CROSS JOIN rowlock_locks AS l
 WHERE l.name >= $1::bytea
   AND l.name < $2::bytea
   AND ($3::boolean OR l.expire_time > c.now)
 ORDER BY l.name
 LIMIT $4::bigint

-- name: schema_version
SELECT max(version) AS version
  FROM rowlock_schema

-- name: schema_exists
-- By way of pg_class: opening it makes this session take note of what others have created since its
-- transaction began. to_regclass() alone would answer from its cache.
SELECT EXISTS (
           SELECT FROM pg_catalog.pg_class AS c WHERE c.oid = to_regclass('rowlock_schema')
       ) AS is_there

-- name: schema_lock
-- One migration at a time; freed by COMMIT or ROLLBACK.
SELECT pg_advisory_xact_lock(hashtextextended('rowlock_schema', 0))

-- name: server
-- backend_pid differs from what the connection was told if a pooler stands in between.
SELECT pg_backend_pid() AS backend_pid, pg_is_in_recovery() AS is_standby

-- name: session
-- $1 lock_timeout  $2 statement_timeout  $3 for this transaction only (through a pooler)
-- Whatever the role's or the database's defaults are. The plan is always the primary key, row by
-- row: not a scan because the table was small or unknown when the plan was made.
SELECT set_config('lock_timeout', $1::text, $3::boolean),
       set_config('statement_timeout', $2::text, $3::boolean),
       set_config('default_transaction_isolation', 'read committed', $3::boolean),
       set_config('default_transaction_read_only', 'off', $3::boolean),
       set_config('default_transaction_deferrable', 'off', $3::boolean),
       set_config('synchronous_commit',
                  CASE current_setting('synchronous_commit')
                      WHEN 'off' THEN 'on'
                      ELSE current_setting('synchronous_commit') END, $3::boolean),
       set_config('plan_cache_mode', 'auto', $3::boolean),
       set_config('random_page_cost', '0.01', $3::boolean),
       set_config('enable_seqscan', 'off', $3::boolean),
       set_config('enable_bitmapscan', 'off', $3::boolean),
       set_config('enable_hashjoin', 'off', $3::boolean),
       set_config('enable_mergejoin', 'off', $3::boolean),
       set_config('jit', 'off', $3::boolean)

-- name: begin
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE

-- name: commit
COMMIT

-- name: rollback
ROLLBACK

-- name: prepare
-- $1 names[]
-- Before a transaction locks rows they must be there, committed: absent ones are made as free ones.
-- Answers the leases that live. Rows that are there are only looked at.
WITH want AS MATERIALIZED (
    SELECT w.name
      FROM unnest($1::bytea[]) AS w (name)
), made AS (
    INSERT INTO rowlock_locks
           (name, owner, fence, hold_count, attempt, acquire_time, expire_time, note)
    SELECT w.name, '', c.now, 0, '00000000-0000-0000-0000-000000000000', c.now, c.now, ''
      FROM want AS w
     CROSS JOIN LATERAL (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
                          WHERE w.name IS NOT NULL OFFSET 0) AS c
     WHERE NOT EXISTS (SELECT FROM rowlock_locks AS l WHERE l.name = ANY (ARRAY[w.name]))
     ORDER BY w.name
        ON CONFLICT (name) DO NOTHING
), clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
)
SELECT l.name, l.owner AS holder, l.fence AS holder_fence, l.expire_time - c.now AS remaining
  FROM want AS w
 CROSS JOIN clock AS c
 CROSS JOIN LATERAL (
        SELECT l.name, l.owner, l.fence, l.expire_time
          FROM rowlock_locks AS l
         WHERE l.name = ANY (ARRAY[w.name])
        OFFSET 0) AS l
 WHERE l.expire_time > c.now

-- name: locate
-- Where this session finds the table, ready to stand between double quotes, and the identity of server
-- and database as in `tx_here`. Answers nothing if the table is not there.
SELECT replace(n.nspname::text, '"', '""') AS place,
       d.oid::bigint::text || ':'
       || (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint::text AS identity
  FROM pg_catalog.pg_class AS c
  JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_database AS d ON d.datname = current_database()
 WHERE c.oid = to_regclass('rowlock_locks')

-- The rest runs in transactions of the application's, on its connection or on ours. Of its session
-- nothing is taken for granted: tables are named with their schema, functions with pg_catalog, texts
-- travel as bytes of UTF-8, whatever search_path and client_encoding are.

-- name: tx_here
-- $1 the identity that `locate` has told
-- First of all in a session of the application's: is it on the server and database of the client? A
-- table of the same name elsewhere would be locked for nothing. If it is not, the cast fails, and
-- nothing behind it is run.
SELECT CASE WHEN h.identity = $1::text THEN 1
            ELSE ('rowlock: another server or database: ' || h.identity)::int END AS is_here
  FROM (SELECT d.oid::bigint::text || ':'
               || (extract(epoch FROM pg_catalog.pg_postmaster_start_time())
                   * 1000000.0)::bigint::text AS identity
          FROM pg_catalog.pg_database AS d
         WHERE d.datname = pg_catalog.current_database()
        OFFSET 0) AS h

-- name: tx_limits
-- $1 how long to wait for a row, in ms, 0: for ever  $2 all of that at once
-- $3 how much longer the whole statement may take, in ms
-- Not all at once: as long as the server needs to notice a deadlock, and a second more. Until the
-- transaction, or its savepoint, ends. Answers what was set before, and the limit.
WITH old AS MATERIALIZED (
    SELECT pg_catalog.current_setting('lock_timeout')      AS lock_timeout,
           pg_catalog.current_setting('statement_timeout') AS statement_timeout,
           pg_catalog.current_setting('deadlock_timeout')::interval AS deadlock_timeout
), new AS MATERIALIZED (
    SELECT CASE WHEN $2::boolean THEN $1::bigint
                ELSE least($1::bigint,
                           greatest(2000,
                                    (extract(epoch FROM o.deadlock_timeout) * 1000.0)::bigint
                                    + 1000)) END AS limit_ms
      FROM old AS o
)
SELECT o.lock_timeout, o.statement_timeout, n.limit_ms,
       pg_catalog.set_config('lock_timeout', n.limit_ms::text, true),
       pg_catalog.set_config('statement_timeout',
                             CASE WHEN n.limit_ms = 0 OR n.limit_ms + $3::bigint > 2147483647
                                  THEN '0' ELSE (n.limit_ms + $3::bigint)::text END, true)
  FROM old AS o
 CROSS JOIN new AS n

-- name: tx_restore
-- $1 lock_timeout  $2 statement_timeout, as `tx_limits` has found them
SELECT pg_catalog.set_config('lock_timeout', $1::text, true),
       pg_catalog.set_config('statement_timeout', $2::text, true)

-- name: tx_lock
-- $1 names[]  $2 owners[] in UTF-8  $3 attempts[]
-- $4 wait for rows that others have locked, instead of passing over them
-- All rows are locked, one by one, before anything is decided. Who has to wait gives up at the first
-- row with a lease, by a cast that fails: it must not keep that row from being renewed while it waits
-- for the next.
WITH want AS MATERIALIZED (
    SELECT w.name, pg_catalog.convert_from(w.owner, 'UTF8') AS owner, w.attempt
      FROM ROWS FROM (pg_catalog.unnest($1::bytea[]), pg_catalog.unnest($2::bytea[]),
                      pg_catalog.unnest($3::uuid[])) AS w (name, owner, attempt)
), waited AS MATERIALIZED (
    SELECT w.name, w.owner, w.attempt, l.owner AS holder, l.fence,
           CASE WHEN l.expire_time
                     > (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000.0)::bigint
                THEN ('rowlock: leased: ' || l.fence::text)::bigint ELSE l.expire_time END AS expire_time
      FROM want AS w
     CROSS JOIN LATERAL (
            SELECT l.owner, l.fence, l.expire_time
              FROM rowlock_locks AS l
             WHERE l.name = ANY (ARRAY[w.name])
               AND $4::boolean
               FOR UPDATE) AS l
), passed AS MATERIALIZED (
    SELECT w.name, w.owner, w.attempt, l.owner AS holder, l.fence, l.expire_time
      FROM want AS w
     CROSS JOIN LATERAL (
            SELECT l.owner, l.fence, l.expire_time
              FROM rowlock_locks AS l
             WHERE l.name = ANY (ARRAY[w.name])
               AND NOT $4::boolean
               FOR UPDATE SKIP LOCKED) AS l
), locked AS MATERIALIZED (
    SELECT * FROM waited UNION ALL SELECT * FROM passed
), clock AS MATERIALIZED (
    SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000.0)::bigint AS now,
           pg_catalog.count(*)           AS locked_count,
           pg_catalog.max(l.expire_time) AS last_expire_time
      FROM locked AS l
), gate AS MATERIALIZED (
    SELECT c.now,
           c.locked_count = pg_catalog.cardinality($1::bytea[])
           AND c.last_expire_time <= c.now AS is_open,
           pg_catalog.current_setting('transaction_isolation')
           IN ('repeatable read', 'serializable') AS has_snapshot
      FROM clock AS c
), taken AS (
    UPDATE rowlock_locks AS l
       SET owner        = w.owner,
           attempt      = w.attempt,
           fence        = greatest(l.fence + 1, g.now),
           hold_count   = 0,
           acquire_time = g.now,
           expire_time  = g.now,
           note         = ''
      FROM locked AS w
     CROSS JOIN gate AS g
     WHERE l.name = ANY (ARRAY[w.name])
       AND g.is_open
    RETURNING l.name, l.fence
)
SELECT t.name, t.fence, true AS is_there, NULL AS holder, NULL AS holder_fence, NULL AS remaining,
       false AS has_snapshot
  FROM taken AS t
 UNION ALL
-- Had, but not all were: with the lease, if that is why.
SELECT w.name, NULL, true,
       CASE WHEN w.expire_time > g.now THEN pg_catalog.convert_to(w.holder, 'UTF8') END,
       w.fence, w.expire_time - g.now, g.has_snapshot
  FROM locked AS w
 CROSS JOIN gate AS g
 WHERE NOT g.is_open
 UNION ALL
-- Not had: somebody has it locked, or it is not there as far as this transaction can see.
SELECT w.name, NULL,
       EXISTS (SELECT FROM rowlock_locks AS l WHERE l.name = ANY (ARRAY[w.name])),
       NULL, NULL, NULL, g.has_snapshot
  FROM want AS w
 CROSS JOIN gate AS g
 WHERE NOT g.is_open
   AND w.name NOT IN (SELECT k.name FROM locked AS k)

-- name: tx_look
-- $1 names[]
-- Who holds the leases that were in the way.
SELECT l.name, pg_catalog.convert_to(l.owner, 'UTF8') AS holder, l.fence AS holder_fence,
       l.expire_time
       - (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000.0)::bigint AS remaining
  FROM pg_catalog.unnest($1::bytea[]) AS w (name)
 CROSS JOIN LATERAL (
        SELECT l.name, l.owner, l.fence, l.expire_time
          FROM rowlock_locks AS l
         WHERE l.name = ANY (ARRAY[w.name])
        OFFSET 0) AS l
 WHERE l.expire_time > (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000.0)::bigint

-- name: tx_guard
-- $1 name  $2 owner in UTF-8  $3 fence
-- The row is locked by what identifies the tenure, and its time is looked at under the lock. Where the
-- transaction keeps a snapshot, a row that was changed since fails as a serialization failure here,
-- and one that is older there than the tenure, or not there, says that the snapshot is too old.
WITH locked AS MATERIALIZED (
    SELECT l.expire_time
      FROM rowlock_locks AS l
     WHERE l.name = $1::bytea
       AND l.owner = pg_catalog.convert_from($2::bytea, 'UTF8')
       AND l.fence = $3::bigint
       FOR SHARE SKIP LOCKED
), clock AS MATERIALIZED (
    SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000.0)::bigint AS now,
           pg_catalog.max(k.expire_time) AS expire_time
      FROM locked AS k
)
SELECT c.expire_time IS NOT NULL   AS is_locked,
       c.expire_time > c.now       AS is_live,
       l.fence = $3::bigint
       AND l.owner = pg_catalog.convert_from($2::bytea, 'UTF8')
                                   AS is_seen,
       l.expire_time > c.now       AS is_seen_live,
       coalesce(l.fence, 0)        AS seen_fence,
       pg_catalog.current_setting('transaction_isolation')
       IN ('repeatable read', 'serializable') AS has_snapshot
  FROM clock AS c
  LEFT JOIN rowlock_locks AS l ON l.name = $1::bytea

-- name: tx_bound
-- $1 lock_timeout in ms
-- Around the guard, which waits for no row, but would for a table that somebody is altering. What was
-- set before is kept in a setting of our own, so that one round trip is enough; it ends with the
-- transaction.
SELECT pg_catalog.set_config('rowlock.lock_timeout',
                             pg_catalog.current_setting('lock_timeout'), true),
       pg_catalog.set_config('lock_timeout', $1::text, true)

-- name: tx_unbound
SELECT pg_catalog.set_config('lock_timeout',
                             pg_catalog.current_setting('rowlock.lock_timeout'), true)

-- name: tx_reset
-- The rest of the transaction is the application's: what `session` and `tx_limits` have set goes back
-- to what the server gave this connection. Answers, in each row, the number of the transaction.
SELECT set_config(s.name, NULL, true), txid_current()
  FROM unnest(ARRAY['statement_timeout', 'default_transaction_isolation',
                    'default_transaction_read_only', 'default_transaction_deferrable',
                    'synchronous_commit', 'plan_cache_mode', 'random_page_cost', 'enable_seqscan',
                    'enable_bitmapscan', 'enable_hashjoin', 'enable_mergejoin', 'jit']) AS s (name)

-- name: tx_ready
-- The last of those settings, as a command: a SELECT, though it is done, would keep its snapshot until
-- the next statement comes, and CREATE INDEX CONCURRENTLY would wait for the transaction's end.
SET LOCAL lock_timeout TO DEFAULT

-- name: tx_same
-- $1 the number of the transaction. Before the COMMIT: fails if the application has ended it and begun
-- another one, in which nothing is locked.
SELECT 1 / (pg_catalog.txid_current() = $1::bigint)::int AS is_same

-- name: savepoint
SAVEPOINT rowlock_step

-- name: savepoint_release
RELEASE SAVEPOINT rowlock_step

-- name: savepoint_undo
ROLLBACK TO SAVEPOINT rowlock_step
