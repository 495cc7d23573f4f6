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
-- was last looked at, each may be compared with each. OFFSET 0 keeps a NOT EXISTS from becoming such a
-- join.
--
-- The queue: a live ticket is one above the lock's own (that by which it was last taken) whose life has
-- not ended. So the search has a lower end, and index entries of tickets that were served are not
-- looked at. "place" is the ticket of who asks; 0: whoever waits; the largest number: behind them all.
--
-- Nobody else's code: a function or operator that has no exact match in pg_catalog is looked for in every
-- schema of the search_path, and who may create in one of them could define the match. So the search_path
-- of our sessions is pg_catalog alone (`session`; pg_temp is named so that it comes last), and the tables
-- are always named with their schema. The statements that run before that, or in a session that the
-- application has changed, name the schema of every function, operator and type: `server`, `place`,
-- `session`, `tx_path`, `tx_same`, `diagnose_path`. (boolean, bigint, int and extract() are grammar: those of
-- pg_catalog.)
--
-- Fences rise per name. While a row is there its own fence sees to that; a row that is made has one above
-- the floor (rowlock_floor), to which `reap` has raised it before it deleted a row. See sql/README.md.
--
-- A lease lives while it has holds and its time has not passed: a clock that was set back brings none back.
-- fragment: live = (ROW.hold_count > 0 AND ROW.expire_time > NOW)
-- fragment: free = (ROW.hold_count = 0 OR ROW.expire_time <= NOW)
-- When the last lease ends or ended; 0: it was given back.
-- fragment: end = (CASE WHEN ROW.hold_count > 0 THEN ROW.expire_time ELSE 0 END)
--
-- An acquire that arrives late, after its client has asked again and has even released: the row has a later
-- attempt of the same owner and client. (The first half of an attempt is the client's, the second one counts.)
-- fragment: stale = (ROW.owner = NOW.owner AND ROW.attempt > NOW.attempt AND left(ROW.attempt::text, 18) = left(NOW.attempt::text, 18))
-- fragment: stale_one = (ROW.owner = $2::text AND ROW.attempt > $5::uuid AND left(ROW.attempt::text, 18) = left($5::uuid::text, 18))

-- name: acquire
-- $1 names[]  $2 owners[]  $3 notes[]  $4 ttls[] in us  $5 attempts[]
-- $6 all or none  $7 pass over rows that somebody keeps locked instead of waiting for them  $8 places[]
-- For a first look: a lease that ends after this counts as live, and is tried again if it matters.
WITH early AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
-- `queue`: it is free, but others come first, and the first of them lives for so long. A row without a
-- mark (one that is later than the end of the last lease) has nobody to look for, unless a ticket asks.
), want AS MATERIALIZED (
    SELECT w.name, w.owner, w.note, w.ttl, w.attempt, w.place,
           CASE WHEN w.place < 9223372036854775807 THEN w.place ELSE 0 END AS ticket, q.queue
      FROM early AS c
     CROSS JOIN unnest($1::bytea[], $2::text[], $3::text[], $4::bigint[], $5::uuid[], $8::bigint[])
        AS w (name, owner, note, ttl, attempt, place)
      LEFT JOIN LATERAL (
            SELECT l.hold_count, l.expire_time, l.wait_until, l.ticket
              FROM rowlock_locks AS l
             WHERE l.name = ANY (ARRAY[w.name])
            OFFSET 0) AS l ON true
      LEFT JOIN LATERAL (
            SELECT q.expire_time - c.now AS queue
              FROM rowlock_waiters AS q
             WHERE q.name = ANY (ARRAY[w.name])
               AND q.ticket > coalesce(l.ticket, 0)
               AND q.ticket < w.place
               AND q.expire_time > c.now
               AND (l.expire_time IS NULL
                    OR {free l c.now}
                   AND (w.place < 9223372036854775807 OR l.wait_until > l.expire_time))
             ORDER BY q.ticket
             LIMIT 1) AS q ON true
-- All or none, and one is plainly not to be had: then lock nothing at all.
), barred AS MATERIALIZED (
    SELECT $6::boolean AND (EXISTS (SELECT FROM want AS w WHERE w.queue IS NOT NULL) OR EXISTS (
        SELECT FROM want AS w
          JOIN rowlock_locks AS l ON l.name = ANY (ARRAY[w.name])
         WHERE l.owner <> w.owner AND {live l (SELECT now FROM early)}
            OR {stale l w}
    )) AS is_barred
-- Rows that look free or are the owner's own are locked, and looked at again under the lock.
), waited AS MATERIALIZED (
    SELECT w.*
      FROM want AS w
     CROSS JOIN LATERAL (
            SELECT FROM rowlock_locks AS l
             WHERE l.name = ANY (ARRAY[w.name])
               AND w.queue IS NULL
               AND NOT $7::boolean
               AND NOT (SELECT is_barred FROM barred)
               AND (l.owner = w.owner OR {free l (SELECT now FROM early)})
               FOR NO KEY UPDATE) AS l
), passed AS MATERIALIZED (
    SELECT w.*
      FROM want AS w
     CROSS JOIN LATERAL (
            SELECT FROM rowlock_locks AS l
             WHERE l.name = ANY (ARRAY[w.name])
               AND w.queue IS NULL
               AND $7
               AND NOT (SELECT is_barred FROM barred)
               AND (l.owner = w.owner OR {free l (SELECT now FROM early)})
               FOR NO KEY UPDATE SKIP LOCKED) AS l
), locked AS (
    SELECT * FROM waited UNION ALL SELECT * FROM passed
), absent AS MATERIALIZED (
    SELECT w.*
      FROM want AS w
     WHERE w.queue IS NULL
       AND NOT EXISTS (SELECT FROM rowlock_locks AS l WHERE l.name = ANY (ARRAY[w.name]) OFFSET 0)
     ORDER BY w.name
-- Nothing is written before every lock is held: count(*) has seen them all.
), gate AS MATERIALIZED (
    SELECT NOT $6 OR count(*) = cardinality($1) AS is_open
      FROM (SELECT FROM locked UNION ALL SELECT FROM absent) AS c
-- Clock and floor are read for each row as it is inserted, and the floor again when it is in.
), made AS (
    INSERT INTO rowlock_locks
           (name, owner, fence, hold_count, attempt, acquire_time, expire_time, note, ticket,
            wait_until)
    SELECT w.name, w.owner, greatest(c.now, c.floor + 1), 1, w.attempt, c.now, c.now + w.ttl, w.note,
           w.ticket,
           CASE WHEN w.ticket > 0 THEN
               coalesce((SELECT max(q.expire_time)
                           FROM rowlock_waiters AS q
                          WHERE q.name = ANY (ARRAY[w.name])
                            AND q.ticket > w.ticket), 0)
           ELSE 0 END
      FROM absent AS w
     CROSS JOIN LATERAL (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now,
                                f.last_value AS floor
                           FROM rowlock_floor AS f
                          WHERE w.name IS NOT NULL OFFSET 0) AS c
     WHERE (SELECT is_open FROM gate)
        ON CONFLICT (name) DO NOTHING
    RETURNING name, ticket, fence, hold_count, expire_time - acquire_time AS ttl,
              fence <= (SELECT f.last_value FROM rowlock_floor AS f WHERE name IS NOT NULL OFFSET 0)
                  AS is_late
-- Inserts come before this: they wait for rows that others have changed, but not for rows that are
-- only locked, so that two batches that see different rows as absent cannot deadlock.
), clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now, count(*)
      FROM made
), taken AS (
    UPDATE rowlock_locks AS l
       SET owner        = w.owner,
           attempt      = w.attempt,
           expire_time  = CASE WHEN l.owner = w.owner AND {live l c.now}
                               THEN greatest(l.expire_time, c.now + w.ttl) ELSE c.now + w.ttl END,
           fence        = CASE WHEN l.owner = w.owner AND {live l c.now} THEN l.fence
                               ELSE greatest(l.fence + 1, c.now) END,
           hold_count   = CASE WHEN NOT (l.owner = w.owner AND {live l c.now}) THEN 1
                               WHEN l.attempt = w.attempt THEN l.hold_count
                               ELSE l.hold_count + 1 END,
           acquire_time = CASE WHEN l.owner = w.owner AND {live l c.now} THEN l.acquire_time
                               ELSE c.now END,
           note         = CASE WHEN l.owner = w.owner AND {live l c.now} AND w.note = ''
                               THEN l.note ELSE w.note END,
           ticket       = greatest(l.ticket, w.ticket)
      FROM locked AS w
     CROSS JOIN clock AS c
     WHERE l.name = ANY (ARRAY[w.name])
       AND (SELECT is_open FROM gate)
       AND NOT {stale l w}
    RETURNING l.name, w.ticket, l.fence, l.hold_count, l.expire_time - c.now AS ttl
), served AS (
    DELETE FROM rowlock_waiters AS q
     USING (SELECT name, ticket FROM taken WHERE ticket > 0
             UNION ALL
            SELECT name, ticket FROM made WHERE ticket > 0) AS w
     WHERE q.name = ANY (ARRAY[w.name])
       AND q.ticket = w.ticket
)
SELECT name, true AS acquired, fence, hold_count, ttl AS remaining, NULL AS holder,
       NULL::bigint AS queue, false AS is_made, false AS is_stale
  FROM taken
 UNION ALL
-- An insert that had to wait carries a clock and a floor, and so a fence, from before. If a tenure of
-- somebody else's came and was reaped since, the floor is not below it: the cast fails and undoes it all.
SELECT name, true,
       CASE WHEN is_late THEN ('rowlock: slow, again: ' || name::text)::bigint ELSE fence END,
       hold_count, ttl, NULL, NULL, true, false
  FROM made
 UNION ALL
-- What was not had, with what can be seen of the row. If all were to be had, and one that somebody
-- made in the meantime is missing from them, the cast fails likewise.
SELECT w.name, false,
       CASE WHEN $6 AND (SELECT is_open FROM gate)
            THEN ('rowlock: raced, again: ' || w.name::text)::bigint ELSE l.fence END,
       l.hold_count, {end l} - (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
       l.owner, w.queue, false, coalesce({stale l w}, false)
  FROM want AS w
  LEFT JOIN rowlock_locks AS l ON l.name = ANY (ARRAY[w.name])
 WHERE w.name NOT IN (SELECT name FROM taken UNION ALL SELECT name FROM made)

-- name: acquire_one
-- The same for one name, without a step that locks first: the UPDATE does. The usual case, cheaper.
-- $1 name  $2 owner  $3 note  $4 ttl in us  $5 attempt  $6 place, which is no ticket
-- `queue`: the end of the first live ticket. A row without a mark, or with one that ended before the last
-- lease did, is taken without a look for it. A row that is made in spite of it (place 0) gets its mark
-- from the next `look`.
WITH seen AS MATERIALIZED (
    SELECT l.owner, l.fence, l.hold_count, l.expire_time, l.attempt,
           CASE WHEN l.wait_until <= l.expire_time THEN NULL ELSE (
               SELECT q.expire_time
                 FROM rowlock_waiters AS q
                WHERE q.name = $1::bytea
                  AND q.ticket > coalesce(l.ticket, 0)
                  AND q.expire_time > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
                ORDER BY q.ticket
                LIMIT 1) END AS queue
      FROM (SELECT) AS one
      LEFT JOIN rowlock_locks AS l ON l.name = $1::bytea
), taken AS (
    UPDATE rowlock_locks AS l
       SET (owner, attempt, expire_time, fence, hold_count, acquire_time, note) = (
               SELECT $2::text,
                      $5::uuid,
                      CASE WHEN c.goes_on THEN greatest(l.expire_time, c.now + $4::bigint)
                           ELSE c.now + $4::bigint END,
                      CASE WHEN c.goes_on THEN l.fence ELSE greatest(l.fence + 1, c.now) END,
                      CASE WHEN NOT c.goes_on THEN 1
                           WHEN l.attempt = $5::uuid THEN l.hold_count
                           ELSE l.hold_count + 1 END,
                      CASE WHEN c.goes_on THEN l.acquire_time ELSE c.now END,
                      CASE WHEN c.goes_on AND $3::text = '' THEN l.note ELSE $3::text END
                 FROM (SELECT t.now, l.owner = $2::text AND {live l t.now} AS goes_on
                         FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
                                   AS now
                               OFFSET 0) AS t
                       OFFSET 0) AS c
           )
     WHERE l.name = $1::bytea
       AND (l.owner = $2::text OR {free l (extract(epoch FROM clock_timestamp()) * 1000000)::bigint})
       AND NOT {stale_one l}
       AND (l.wait_until <= l.expire_time
            OR $6::bigint = 0
            OR {live l (extract(epoch FROM clock_timestamp()) * 1000000)::bigint}
            OR (SELECT s.queue FROM seen AS s) IS NULL)
    RETURNING l.fence, l.hold_count, l.expire_time
), made AS (
    INSERT INTO rowlock_locks
           (name, owner, fence, hold_count, attempt, acquire_time, expire_time, note)
    SELECT $1::bytea, $2::text, greatest(c.now, c.floor + 1), 1, $5::uuid, c.now, c.now + $4::bigint,
           $3::text
      FROM seen AS s
     CROSS JOIN LATERAL (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now,
                                f.last_value AS floor
                           FROM rowlock_floor AS f
                          WHERE s.fence IS NULL OFFSET 0) AS c
     WHERE s.fence IS NULL
       AND ($6::bigint = 0 OR s.queue IS NULL)
        ON CONFLICT (name) DO NOTHING
    RETURNING fence, hold_count, expire_time,
              fence <= (SELECT f.last_value FROM rowlock_floor AS f WHERE name IS NOT NULL OFFSET 0)
                  AS is_late
), had AS (
    SELECT fence, hold_count, expire_time, false AS is_made FROM taken
     UNION ALL
    SELECT CASE WHEN is_late THEN ('rowlock: slow, again: ' || fence::text)::bigint ELSE fence END,
           hold_count, expire_time, true
      FROM made
)
SELECT $1::bytea AS name, true AS acquired, fence, hold_count,
       expire_time - (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS remaining,
       NULL AS holder, NULL::bigint AS queue, is_made, false AS is_stale
  FROM had
 UNION ALL
-- What was not had, and, if the row is free, the life of the first ticket.
SELECT $1::bytea, false, s.fence, s.hold_count, {end s} - c.now, s.owner,
       CASE WHEN {live s c.now} IS NOT TRUE AND $6::bigint > 0
            THEN s.queue - c.now END, false, coalesce({stale_one s}, false)
  FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now OFFSET 0) AS c
 CROSS JOIN seen AS s
 WHERE NOT EXISTS (SELECT FROM had)

-- name: acquire_free
-- Rows that are there, free, and neither waited for nor locked by anybody: the usual case, at less than
-- half the cost. `acquire` goes on with what is not in the answer. Mostly they need not be locked first:
-- xmax is 0 where nobody has ever locked this version of the row or begun to change it. (Who does so at
-- this very moment is waited for, as long as lock_timeout allows; then the row is looked at again.) A row
-- that was locked and changed in one transaction keeps that one's number: whether it still is, a lock
-- tells. CASE sees to it that only rows that are free are locked.
-- unnest() in the list of a SELECT, all at the same pace: in FROM each of them would be put aside first.
-- $1 names[]  $2 owners[]  $3 notes[]  $4 ttls[] in us  $5 attempts[]
UPDATE rowlock_locks AS l
   SET owner        = w.owner,
       attempt      = w.attempt,
       expire_time  = w.now + w.ttl,
       fence        = greatest(l.fence + 1, w.now),
       hold_count   = 1,
       acquire_time = w.now,
       note         = w.note
  FROM (SELECT c.now,
               unnest($1::bytea[])  AS name,
               unnest($2::text[])   AS owner,
               unnest($3::text[])   AS note,
               unnest($4::bigint[]) AS ttl,
               unnest($5::uuid[])   AS attempt
          FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
                OFFSET 0) AS c
        OFFSET 0) AS w
 WHERE l.name = ANY (ARRAY[w.name])
   AND CASE WHEN {free l w.now}
             AND l.wait_until <= l.expire_time
             AND NOT {stale l w}
            THEN l.xmax = 0
                 OR EXISTS (SELECT FROM rowlock_locks AS k
                             WHERE k.ctid = l.ctid
                               FOR NO KEY UPDATE SKIP LOCKED) END
RETURNING l.name, l.fence

-- name: acquire_free_one
-- The same for one name, which waits for a moment if somebody keeps the row locked. Cheaper still: the
-- clock is read where it is needed, since a place for it of its own would be another part of the plan.
-- $1 name  $2 owner  $3 note  $4 ttl in us  $5 attempt
UPDATE rowlock_locks AS l
   SET owner        = $2::text,
       attempt      = $5::uuid,
       expire_time  = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $4::bigint,
       fence        = greatest(l.fence + 1,
                               (extract(epoch FROM clock_timestamp()) * 1000000)::bigint),
       hold_count   = 1,
       acquire_time = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
       note         = $3::text
 WHERE l.name = $1::bytea
   AND {free l (extract(epoch FROM clock_timestamp()) * 1000000)::bigint}
   AND l.wait_until <= l.expire_time
   AND NOT {stale_one l}
RETURNING l.name, l.fence

-- name: renew
-- $1 names[]  $2 owners[]  $3 fences[]  $4 ttls[] in us
-- A row that a transaction has locked at this moment is passed over and answered as not renewed;
-- a lease that is not there, or not any more, is not answered at all. Whether it lives is said by what was
-- read under the lock: the snapshot's version may be older than a renewal that was not yet committed.
WITH want AS MATERIALIZED (
    SELECT w.name, w.owner, w.fence, w.ttl
      FROM unnest($1::bytea[], $2::text[], $3::bigint[], $4::bigint[])
        AS w (name, owner, fence, ttl)
), locked AS MATERIALIZED (
    SELECT w.name, w.ttl, l.hold_count, l.expire_time
      FROM want AS w
     CROSS JOIN LATERAL (
            SELECT l.hold_count, l.expire_time
              FROM rowlock_locks AS l
             WHERE l.name = ANY (ARRAY[w.name])
               AND l.owner = w.owner
               AND l.fence = w.fence
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
       AND {live w c.now}
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
        OFFSET 0) AS l
 WHERE w.name NOT IN (SELECT name FROM locked)

-- name: release
-- $1 names[]  $2 owners[]  $3 fences[]  $4 attempts[]
-- $5 seen[]: the attempt that the row must have, zero: any; if it has another one, that is answered
-- $6 channels[]: where who waits is told, if the row says that somebody does; empty: not
-- The commit is not waited for (synchronous_commit, for this transaction alone): a release that a
-- crash undoes runs out by itself.
WITH relaxed AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true) AS mode
), want AS MATERIALIZED (
    SELECT w.name, w.owner, w.fence, w.attempt, w.seen, w.channel
      FROM unnest($1::bytea[], $2::text[], $3::bigint[], $4::uuid[], $5::uuid[], $6::text[])
        AS w (name, owner, fence, attempt, seen, channel)
), locked AS MATERIALIZED (
    SELECT w.name, w.attempt, w.channel, l.hold_count, l.expire_time, l.attempt AS found,
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
       AND {live w c.now}
    RETURNING l.name, l.hold_count, w.channel,
              l.hold_count = 0 AND l.wait_until > l.expire_time AS is_waited
)
SELECT name, hold_count, NULL AS found,
       CASE WHEN is_waited AND channel <> '' THEN pg_notify(channel, '') END AS told
  FROM released
 UNION ALL
SELECT w.name, w.hold_count, CASE WHEN w.is_repeated THEN NULL ELSE w.found END, NULL
  FROM locked AS w
 CROSS JOIN clock AS c
 WHERE w.is_repeated
    OR (NOT w.is_expected AND {live w c.now})

-- name: release_free
-- Last holds of locks that nobody waits for: the usual case, cheaper. `release` goes on with what is not
-- in the answer.
-- $1 names[]  $2 owners[]  $3 fences[]  $4 attempts[]  $5 seen[]
UPDATE rowlock_locks AS l
   SET attempt     = w.attempt,
       hold_count  = 0,
       expire_time = w.now
  FROM (SELECT c.now,
               unnest($1::bytea[])  AS name,
               unnest($2::text[])   AS owner,
               unnest($3::bigint[]) AS fence,
               unnest($4::uuid[])   AS attempt,
               unnest($5::uuid[])   AS seen
          FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now,
                       set_config('synchronous_commit', 'off', true)             AS mode
                OFFSET 0) AS c
        OFFSET 0) AS w
 WHERE l.name = ANY (ARRAY[w.name])
   AND l.owner = w.owner
   AND l.fence = w.fence
   AND l.attempt <> w.attempt
   AND w.seen IN (l.attempt, '00000000-0000-0000-0000-000000000000')
   AND l.hold_count = 1
   AND l.expire_time > w.now
   AND l.wait_until <= w.now
RETURNING l.name

-- name: exchange
-- Releases as by release_free and acquires as by acquire_free, in one statement and one commit, which is
-- waited for. `release` and `acquire` go on with what is not in the answer. No name twice. Nobody waits
-- for the sake of a row that is locked: xmax as in acquire_free.
-- $1 names[]  $2 owners[]  $3 notes[]  $4 ttls[] in us, 0: a release  $5 attempts[]
-- $6 fences[] and $7 seen[], of releases
UPDATE rowlock_locks AS l
   SET owner        = w.owner,
       attempt      = w.attempt,
       expire_time  = w.now + w.ttl,
       fence        = CASE WHEN w.ttl = 0 THEN l.fence ELSE greatest(l.fence + 1, w.now) END,
       hold_count   = CASE WHEN w.ttl = 0 THEN 0 ELSE 1 END,
       acquire_time = CASE WHEN w.ttl = 0 THEN l.acquire_time ELSE w.now END,
       note         = CASE WHEN w.ttl = 0 THEN l.note ELSE w.note END
  FROM (SELECT c.now,
               unnest($1::bytea[])  AS name,
               unnest($2::text[])   AS owner,
               unnest($3::text[])   AS note,
               unnest($4::bigint[]) AS ttl,
               unnest($5::uuid[])   AS attempt,
               unnest($6::bigint[]) AS fence,
               unnest($7::uuid[])   AS seen
          FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
                OFFSET 0) AS c
        OFFSET 0) AS w
 WHERE l.name = ANY (ARRAY[w.name])
   AND CASE WHEN CASE WHEN w.ttl = 0
                      THEN l.owner = w.owner
                           AND l.fence = w.fence
                           AND l.attempt <> w.attempt
                           AND w.seen IN (l.attempt, '00000000-0000-0000-0000-000000000000')
                           AND l.hold_count = 1
                           AND l.expire_time > w.now
                           AND l.wait_until <= w.now
                      ELSE {free l w.now}
                           AND l.wait_until <= l.expire_time
                           AND NOT {stale l w} END
            THEN l.xmax = 0
                 OR EXISTS (SELECT FROM rowlock_locks AS k
                             WHERE k.ctid = l.ctid
                               FOR NO KEY UPDATE SKIP LOCKED) END
RETURNING l.name, l.fence, l.hold_count

-- name: release_one
-- The same for one name, cheaper, unless somebody has to be told on a channel: `release` tells. No answer
-- may also mean that an earlier sending of this very call was still under way: `release`, which looks
-- under the lock, knows.
-- The bell is the session's lock. It becomes the transaction's here, and rings when that has committed: who
-- hears it sees the row free.
-- $1 name  $2 owner  $3 fence  $4 attempt  $5 seen  $6 the ticket whose bell is rung, 0: none
UPDATE rowlock_locks AS l
   SET attempt     = $4::uuid,
       hold_count  = l.hold_count - 1,
       expire_time = CASE WHEN l.hold_count > 1 THEN l.expire_time
                          ELSE (extract(epoch FROM clock_timestamp()) * 1000000)::bigint END
 WHERE l.name = $1::bytea
   AND l.owner = $2::text
   AND l.fence = $3::bigint
   AND l.attempt <> $4::uuid
   AND $5::uuid IN (l.attempt, '00000000-0000-0000-0000-000000000000')
   AND {live l (extract(epoch FROM clock_timestamp()) * 1000000)::bigint}
   AND (l.wait_until <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
        OR l.hold_count > 1
        OR $6::bigint > 0)
RETURNING l.name, l.hold_count, NULL::uuid AS found,
          CASE WHEN set_config('synchronous_commit', 'off', true) = 'off'
               THEN CASE WHEN l.hold_count = 0 AND $6::bigint > 0
                          AND pg_try_advisory_xact_lock($6::bigint)
                         THEN pg_advisory_unlock($6::bigint) END END AS rung

-- name: hand_over
-- The last hold of a lock becomes another owner's first one, if nobody else waits for it: a release and an
-- acquire in one. No answer: `release` and `acquire`. A row with a mark is looked at more closely, since a
-- mark lasts for longer than a wait. The bell of who releases is not the next one's: so that nobody waits
-- for it the row's ticket, which names it, is raised.
-- $1 name  $2 owner  $3 note  $4 ttl in us  $5 attempt, of who acquires
-- $6 owner  $7 fence  $8 attempt  $9 seen  $10 the ticket whose bell is rung, 0: none, of who releases
UPDATE rowlock_locks AS l
   SET owner        = $2::text,
       attempt      = $5::uuid,
       expire_time  = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $4::bigint,
       fence        = greatest(l.fence + 1,
                               (extract(epoch FROM clock_timestamp()) * 1000000)::bigint),
       hold_count   = 1,
       acquire_time = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
       note         = $3::text,
       ticket       = CASE WHEN $10::bigint > 0 THEN l.ticket + 1 ELSE l.ticket END
 WHERE l.name = $1::bytea
   AND l.owner = $6::text
   AND l.fence = $7::bigint
   AND l.attempt <> $8::uuid
   AND $9::uuid IN (l.attempt, '00000000-0000-0000-0000-000000000000')
   AND l.hold_count = 1
   AND l.expire_time > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
   AND (l.wait_until <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
        OR NOT EXISTS (
               SELECT FROM rowlock_waiters AS q
                WHERE q.name = $1::bytea
                  AND q.ticket > l.ticket
                  AND q.expire_time > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
               OFFSET 0))
RETURNING l.fence,
          CASE WHEN $10::bigint > 0 AND pg_try_advisory_xact_lock($10::bigint)
               THEN pg_advisory_unlock($10::bigint) END AS rung

-- name: force_release
-- $1 name  $2 fence of the tenure to end, 0: any  $3 attempt  $4 channel
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
       AND {live l (extract(epoch FROM clock_timestamp()) * 1000000)::bigint}
    RETURNING l.fence, l.wait_until > l.expire_time AS is_waited
)
SELECT fence,
       CASE WHEN is_waited AND $4::text <> '' THEN pg_notify($4::text, '') END AS told
  FROM ended
 UNION ALL
SELECT l.fence, NULL
  FROM rowlock_locks AS l
 WHERE l.name = $1::bytea
   AND l.attempt = $3::uuid

-- name: reap
-- $1 retention in us  $2 at most so many rows  $3 behind this name  $4 looks at so many rows
-- The clock is read once: most rows of a large table are looked at in vain. Rows are found by a plain
-- read, which ends with the last one wanted; locked where they were found, if they still are dead; and
-- deleted there. A lost deletion is made up for by the next reaper: nobody waits for the disk.
-- The floor rises before that to the largest fence of what was found, at once for everybody; no row with a
-- larger one is deleted. One at a time raises it, or it could be set back by who had read it before: keys
-- of two numbers are others than those of tickets.
WITH relaxed AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true) AS mode,
           pg_advisory_xact_lock(f.tableoid::integer, 0) AS alone
      FROM rowlock_floor AS f
), clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - $1::bigint AS before
      FROM relaxed
), found AS MATERIALIZED (
    SELECT p.place, p.name, p.fence
      FROM clock AS c
     CROSS JOIN (SELECT l.ctid AS place, l.name, l.expire_time, l.fence
                   FROM rowlock_locks AS l
                  WHERE l.name > $3::bytea
                  ORDER BY l.name
                  LIMIT $4::bigint) AS p
     WHERE p.expire_time < c.before
     ORDER BY p.name
     LIMIT $2::bigint
), raised AS MATERIALIZED (
    SELECT CASE WHEN m.fence > f.last_value THEN setval(f.tableoid::regclass, m.fence)
                ELSE f.last_value END AS floor
      FROM (SELECT max(p.fence) AS fence FROM found AS p OFFSET 0) AS m
     CROSS JOIN LATERAL (SELECT f.tableoid, f.last_value
                           FROM rowlock_floor AS f
                          WHERE m.fence IS NOT NULL OFFSET 0) AS f
), reaped AS (
    DELETE FROM rowlock_locks AS o
     WHERE o.ctid = ANY (ARRAY(
           SELECT l.ctid
             FROM clock AS c
            CROSS JOIN raised AS r
            CROSS JOIN rowlock_locks AS l
            WHERE l.ctid = ANY (ARRAY(SELECT f.place FROM found AS f))
              AND l.expire_time < c.before
              AND l.fence <= r.floor
              FOR UPDATE OF l SKIP LOCKED))
    RETURNING o.name, o.ticket
-- Tickets that are past because these rows said so.
), past AS MATERIALIZED (
    SELECT q.name, q.ticket
      FROM reaped AS r
     CROSS JOIN LATERAL (
            SELECT q.name, q.ticket
              FROM rowlock_waiters AS q
             WHERE q.name = ANY (ARRAY[r.name])
               AND q.ticket <= r.ticket
               FOR UPDATE SKIP LOCKED) AS q
     WHERE r.ticket > 0
-- Tickets whose life ended a minute ago: of waiters that died, or did not come again.
), dead AS MATERIALIZED (
    SELECT q.name, q.ticket
      FROM clock AS c
     CROSS JOIN rowlock_waiters AS q
     WHERE q.expire_time < c.before + $1::bigint - 60000000
     LIMIT $2::bigint
       FOR UPDATE OF q SKIP LOCKED
), forgotten AS (
    DELETE FROM rowlock_waiters AS q
     USING (SELECT * FROM dead UNION ALL SELECT * FROM past) AS d
     WHERE q.name = ANY (ARRAY[d.name])
       AND q.ticket = d.ticket
)
-- Where to go on: behind the last one deleted, or behind the last one looked at, if there is any.
SELECT (SELECT count(*) FROM reaped) AS reaped,
       CASE WHEN (SELECT count(*) FROM found) = $2::bigint
            THEN (SELECT f.name
                    FROM found AS f
                   ORDER BY f.name DESC
                   LIMIT 1)
            ELSE (SELECT l.name
                    FROM rowlock_locks AS l
                   WHERE l.name > $3::bytea
                   ORDER BY l.name
                  OFFSET $4::bigint - 1
                   LIMIT 1)
       END AS mark

-- name: list
-- $1 first name  $2 name behind the last  $3 free rows, too  $4 at most so many rows
SELECT l.name, l.owner, l.note, l.fence, l.hold_count,
       c.now - l.acquire_time AS held,
       CASE WHEN l.hold_count > 0 THEN l.expire_time - c.now
            ELSE least(l.expire_time - c.now, 0) END AS remaining
  FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now OFFSET 0) AS c
 CROSS JOIN rowlock_locks AS l
 WHERE l.name >= $1::bytea
   AND l.name < $2::bytea
   AND ($3::boolean OR {live l c.now})
 ORDER BY l.name
 LIMIT $4::bigint

-- name: enqueue
-- $1 names[]  $2 owner  $3 life in us  $4 with a bell  $5 mark the rows
-- The mark is on the lock's own row, so that a release either sees it or is seen by the try that follows.
-- It is renewed when a third of it is over, not for each waiter. The commit is not waited for: a ticket
-- that a crash undoes costs a place. The array comes from a SELECT so that its length is not known to the
-- planner: else a plan for one name looks so much cheaper than one for any number that it is made anew
-- each time.
WITH relaxed AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true) AS mode,
           (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
), seen AS MATERIALIZED (
    SELECT w.name, l.owner, l.fence, l.expire_time, coalesce(l.ticket, 0) AS ticket
      FROM relaxed
     CROSS JOIN unnest((SELECT $1::bytea[])) AS w (name)
      LEFT JOIN LATERAL (
            SELECT l.owner, l.fence, {end l} AS expire_time, l.ticket
              FROM rowlock_locks AS l
             WHERE l.name = ANY (ARRAY[w.name])
            OFFSET 0) AS l ON true
), locked AS MATERIALIZED (
    SELECT s.name, l.ticket
      FROM relaxed AS c
     CROSS JOIN seen AS s
     CROSS JOIN LATERAL (
            SELECT l.ticket
              FROM rowlock_locks AS l
             WHERE l.name = ANY (ARRAY[s.name])
               AND $5::boolean
               AND l.wait_until < c.now + $3::bigint / 3 * 2
               FOR NO KEY UPDATE) AS l
), lowest AS MATERIALIZED (
    SELECT greatest(max(greatest(s.ticket, q.ticket)), (SELECT max(k.ticket) FROM locked AS k)) + 1
               AS ticket
      FROM seen AS s
      LEFT JOIN LATERAL (
            SELECT q.ticket
              FROM rowlock_waiters AS q
             WHERE q.name = ANY (ARRAY[s.name])
               AND q.ticket > s.ticket
             ORDER BY q.ticket DESC
             LIMIT 1) AS q ON true
-- The clock is read when all rows are locked: nobody is served by a later ticket in the meantime.
), number AS MATERIALIZED (
    SELECT c.now, greatest(c.now, n.ticket) AS ticket
      FROM lowest AS n
     CROSS JOIN LATERAL (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
                          WHERE n.ticket IS NOT NULL OFFSET 0) AS c
-- The bell is there before the ticket can be seen. Who has a key in common with somebody else has none.
), place AS MATERIALIZED (
    SELECT n.now, n.ticket,
           CASE WHEN $4::boolean THEN pg_try_advisory_lock(n.ticket) ELSE false END AS has_bell
      FROM number AS n
), marked AS (
    UPDATE rowlock_locks AS l
       SET wait_until = p.now + $3
      FROM locked AS k
     CROSS JOIN place AS p
     WHERE l.name = ANY (ARRAY[k.name])
), added AS (
    INSERT INTO rowlock_waiters (name, ticket, owner, since_time, expire_time, has_bell)
    SELECT s.name, p.ticket, $2::text, p.now, p.now + $3, p.has_bell
      FROM seen AS s
     CROSS JOIN place AS p
-- A few of those who died in front. Tickets that are past are left to `reap`.
), dead AS MATERIALIZED (
    SELECT q.name, q.ticket
      FROM seen AS s
     CROSS JOIN place AS p
     CROSS JOIN LATERAL (
            SELECT q.ticket, q.expire_time
              FROM rowlock_waiters AS q
             WHERE q.name = ANY (ARRAY[s.name])
               AND q.ticket > s.ticket
             ORDER BY q.ticket
             LIMIT 8) AS f
     CROSS JOIN LATERAL (
            SELECT q.name, q.ticket
              FROM rowlock_waiters AS q
             WHERE q.name = ANY (ARRAY[s.name])
               AND q.ticket = f.ticket
               AND q.expire_time <= p.now
               AND f.expire_time <= p.now
               FOR UPDATE SKIP LOCKED) AS q
), cleared AS (
    DELETE FROM rowlock_waiters AS q
     USING dead AS d
     WHERE q.name = ANY (ARRAY[d.name])
       AND q.ticket = d.ticket
)
SELECT s.name, p.ticket, p.has_bell,
       CASE WHEN s.expire_time > p.now THEN s.owner END AS holder, s.fence,
       coalesce(a.ticket, h.ticket, 0) AS before,
       coalesce(a.has_bell, h.ticket > 0 OR $5, false) AS can_wait,
       coalesce(a.expire_time, s.expire_time, 0) - p.now AS remaining
  FROM seen AS s
 CROSS JOIN place AS p
  LEFT JOIN LATERAL (
        SELECT q.ticket, q.expire_time, q.has_bell
          FROM rowlock_waiters AS q
         WHERE q.name = ANY (ARRAY[s.name])
           AND q.ticket > s.ticket
           AND q.ticket < p.ticket
           AND q.expire_time > p.now
         ORDER BY q.ticket DESC
         LIMIT 1) AS a ON true
-- The bell of who holds it. Nobody's: who holds it did not come by this ticket.
  LEFT JOIN LATERAL (
        SELECT s.ticket
         WHERE a.ticket IS NULL
           AND s.ticket > 0
           AND s.expire_time > p.now
           AND NOT pg_try_advisory_xact_lock_shared(s.ticket)
        OFFSET 0) AS h ON true

-- name: enqueue_again
-- The same for one name, cheaper, on a connection whose last ticket was served by `turn_free`, which has
-- left it behind: it becomes the new one. If the lock's row has a mark that need not be renewed, and the
-- last one of the queue lives. No answer: `enqueue`, when the bell that may be there has been taken down.
-- The bell is hung up in FROM: what stands in SET is done once more if the row was just being changed by
-- somebody else, and a bell that hangs twice does not ring when it is rung once.
-- What `bell_before` may wait for is left in the session, in a setting; 0: nothing.
-- $1 name  $2 owner  $3 life in us  $4 with a bell  $5 the last ticket  $6 how long it may wait, in us
UPDATE rowlock_waiters AS w
   SET ticket      = s.next,
       owner       = $2::text,
       since_time  = s.now,
       expire_time = s.now + $3::bigint,
       has_bell    = s.has_bell
  FROM (SELECT c.now, l.owner, l.fence, {end l} AS expire_time,
               greatest(c.now, l.ticket + 1, a.ticket + 1) AS next,
               CASE WHEN $4::boolean
                    THEN pg_try_advisory_lock(greatest(c.now, l.ticket + 1, a.ticket + 1))
                    ELSE false END AS has_bell,
               coalesce(a.ticket,
                        CASE WHEN l.ticket > 0
                              AND {live l c.now}
                              AND NOT pg_try_advisory_xact_lock_shared(l.ticket) THEN l.ticket END,
                        0) AS before,
               coalesce(a.has_bell, true)                     AS can_wait,
               coalesce(a.expire_time, {end l}) - c.now AS remaining
          FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now,
                       set_config('synchronous_commit', 'off', true)             AS mode
                OFFSET 0) AS c
         CROSS JOIN rowlock_locks AS l
          LEFT JOIN LATERAL (
                SELECT q.ticket, q.expire_time, q.has_bell
                  FROM rowlock_waiters AS q
                 WHERE q.name = $1::bytea
                   AND q.ticket > l.ticket
                 ORDER BY q.ticket DESC
                 LIMIT 1) AS a ON true
         WHERE l.name = $1::bytea
           AND l.ticket >= $5::bigint
           AND l.wait_until >= c.now + $3::bigint / 3 * 2
           AND (a.expire_time IS NULL OR a.expire_time > c.now)
        OFFSET 0) AS s
 WHERE w.name = $1::bytea
   AND w.ticket = $5::bigint
RETURNING $1::bytea AS name, w.ticket, w.has_bell,
          CASE WHEN s.expire_time > s.now THEN s.owner END AS holder, s.fence, s.before, s.can_wait,
          s.remaining,
          CASE WHEN $6::bigint > 0
               THEN set_config('rowlock.before',
                               CASE WHEN s.has_bell AND s.can_wait AND s.remaining > $6::bigint
                                    THEN s.before ELSE 0 END::text, false) END AS waits

-- name: bell
-- $1 ticket  $2 how long to wait, in ms
-- If the time passes this fails. `turn` follows when it was heard, and not before: a statement that was
-- sent is run although the client has died meanwhile.
SELECT CASE WHEN set_config('lock_timeout', $2::text, true) <> ''
            THEN pg_advisory_xact_lock_shared($1::bigint) END AS heard

-- name: bell_before
-- The wait that comes with `enqueue_again`, in the same round trip, when that has been committed. A setting
-- that an earlier call has left names a ticket before the one that this connection had last.
-- $1 that ticket  $2 how long to wait, in ms
-- If the time passes this fails. NULL: nothing was waited for.
SELECT CASE WHEN current_setting('rowlock.before', true)::bigint > 0
             AND current_setting('rowlock.before', true)::bigint >= $1::bigint
             AND set_config('lock_timeout', $2::text, true) <> ''
            THEN pg_advisory_xact_lock_shared(current_setting('rowlock.before', true)::bigint) END AS heard

-- name: turn
-- $1 name  $2 owner  $3 note  $4 ttl in us  $5 attempt  $6 ticket
-- $7 the ticket whose bell was heard: if it is still in the queue, its connection has ended; 0: none
-- $8 only look, since somebody keeps the row locked
-- $9 the fence of a tenure that was seen without a bell; 0: none
-- Verdict: 0 busy, 1 had, 2 the ticket is gone or past, or the request late in a tenure of the owner's own,
-- 3 once more: somebody was faster, or may have been.
-- For if the row's ticket has no bell, then who holds it came without one and will tell on the channel; or
-- has just given it back, ringing, and the row is read as it was before. A second look tells, by the fence.
WITH early AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
), seen AS MATERIALIZED (
    SELECT c.now, l.owner, l.fence, {end l} AS expire_time, l.wait_until,
           coalesce(l.ticket, 0) AS ticket, {live l c.now} AND {stale_one l} AS is_late
      FROM early AS c
      LEFT JOIN rowlock_locks AS l ON l.name = $1::bytea
), mine AS MATERIALIZED (
    SELECT q.expire_time
      FROM seen AS s
     CROSS JOIN rowlock_waiters AS q
     WHERE q.name = $1::bytea
       AND q.ticket = $6::bigint
       AND q.ticket > s.ticket
       AND q.expire_time > s.now
), ahead AS MATERIALIZED (
    SELECT q.ticket, q.expire_time, q.has_bell
      FROM seen AS s
     CROSS JOIN LATERAL (
            SELECT q.ticket, q.expire_time, q.has_bell
              FROM rowlock_waiters AS q
             WHERE q.name = $1::bytea
               AND q.ticket > s.ticket
               AND q.ticket < $6::bigint
               AND q.expire_time > s.now
               AND NOT (q.ticket = $7::bigint AND q.has_bell)
             ORDER BY q.ticket DESC
             LIMIT 1) AS q
), taken AS (
    UPDATE rowlock_locks AS l
       SET (owner, attempt, expire_time, fence, hold_count, acquire_time, note, ticket) = (
               SELECT $2::text,
                      $5::uuid,
                      CASE WHEN c.goes_on THEN greatest(l.expire_time, c.now + $4::bigint)
                           ELSE c.now + $4::bigint END,
                      CASE WHEN c.goes_on THEN l.fence ELSE greatest(l.fence + 1, c.now) END,
                      CASE WHEN NOT c.goes_on THEN 1
                           WHEN l.attempt = $5::uuid THEN l.hold_count
                           ELSE l.hold_count + 1 END,
                      CASE WHEN c.goes_on THEN l.acquire_time ELSE c.now END,
                      CASE WHEN c.goes_on AND $3::text = '' THEN l.note ELSE $3::text END,
                      CASE WHEN c.goes_on THEN l.ticket ELSE $6::bigint END
                 FROM (SELECT t.now, l.owner = $2::text AND {live l t.now} AS goes_on
                         FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
                                   AS now
                               OFFSET 0) AS t
                       OFFSET 0) AS c
           )
     WHERE l.name = $1::bytea
       AND NOT $8::boolean
       AND (l.owner = $2::text AND {live l (extract(epoch FROM clock_timestamp()) * 1000000)::bigint}
           AND NOT {stale_one l}
            OR {free l (extract(epoch FROM clock_timestamp()) * 1000000)::bigint}
           AND l.ticket < $6::bigint
           AND EXISTS (SELECT FROM mine)
           AND NOT EXISTS (SELECT FROM ahead))
    RETURNING l.fence, l.hold_count, l.expire_time
), made AS (
    INSERT INTO rowlock_locks
           (name, owner, fence, hold_count, attempt, acquire_time, expire_time, note, ticket,
            wait_until)
    SELECT $1::bytea, $2::text, greatest(c.now, c.floor + 1), 1, $5::uuid, c.now, c.now + $4::bigint,
           $3::text, $6::bigint, m.expire_time
      FROM mine AS m
     CROSS JOIN LATERAL (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now,
                                f.last_value AS floor
                           FROM rowlock_floor AS f
                          WHERE m.expire_time IS NOT NULL OFFSET 0) AS c
     WHERE NOT $8::boolean
       AND (SELECT s.fence FROM seen AS s) IS NULL
       AND NOT EXISTS (SELECT FROM ahead)
        ON CONFLICT (name) DO NOTHING
    RETURNING fence, hold_count, expire_time,
              fence <= (SELECT f.last_value FROM rowlock_floor AS f WHERE name IS NOT NULL OFFSET 0)
                  AS is_late
), had AS (
    SELECT fence, hold_count, expire_time FROM taken
     UNION ALL
    SELECT CASE WHEN is_late THEN ('rowlock: slow, again: ' || fence::text)::bigint ELSE fence END,
           hold_count, expire_time
      FROM made
), served AS (
    DELETE FROM rowlock_waiters AS q
     WHERE q.name = $1::bytea
       AND q.ticket = ANY (ARRAY[$6::bigint, $7::bigint])
       AND NOT $8::boolean
       AND (q.ticket = $7::bigint AND q.has_bell
            OR q.ticket = $6::bigint AND (EXISTS (SELECT FROM had)
                                          OR q.ticket <= (SELECT ticket FROM seen)))
)
SELECT 1 AS verdict, h.fence, h.hold_count,
       h.expire_time - (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS remaining,
       NULL AS holder, 0::bigint AS before, false AS can_wait
  FROM had AS h
 UNION ALL
SELECT CASE WHEN NOT EXISTS (SELECT FROM mine) OR s.is_late THEN 2
            WHEN a.ticket > 0 OR h.ticket > 0 OR $8::boolean THEN 0
            WHEN s.expire_time > s.now AND (s.ticket = 0 OR s.fence = $9::bigint) THEN 0
            ELSE 3 END,
       s.fence, 0,
       coalesce(a.expire_time, s.expire_time, 0) - s.now,
       CASE WHEN s.expire_time > s.now THEN s.owner END,
       coalesce(a.ticket, h.ticket, 0),
       coalesce(a.has_bell, h.ticket > 0 OR s.expire_time > s.now AND s.wait_until > s.now, false)
  FROM seen AS s
  LEFT JOIN ahead AS a ON true
  LEFT JOIN LATERAL (
        SELECT s.ticket
         WHERE a.ticket IS NULL
           AND s.ticket > 0
           AND s.expire_time > s.now
           AND NOT pg_try_advisory_xact_lock_shared(s.ticket)
        OFFSET 0) AS h ON true
 WHERE NOT EXISTS (SELECT FROM had)

-- name: turn_free
-- The usual end of a wait, cheaper: the row is free, and the ticket is the first one that lives. It stays
-- behind in its table, past as it is now that the lock's row has it: `enqueue_again` uses it again, or
-- `reap` takes it. No answer: `turn`, with the same parameters and two more.
UPDATE rowlock_locks AS l
   SET owner        = $2::text,
       attempt      = $5::uuid,
       expire_time  = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $4::bigint,
       fence        = greatest(l.fence + 1,
                               (extract(epoch FROM clock_timestamp()) * 1000000)::bigint),
       hold_count   = 1,
       acquire_time = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
       note         = $3::text,
       ticket       = $6::bigint
 WHERE l.name = $1::bytea
   AND {free l (extract(epoch FROM clock_timestamp()) * 1000000)::bigint}
   AND (SELECT q.ticket
          FROM rowlock_waiters AS q
         WHERE q.name = $1::bytea
           AND q.ticket > l.ticket
           AND q.ticket <= $6::bigint
           AND q.expire_time > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
         ORDER BY q.ticket
         LIMIT 1) = $6::bigint
RETURNING 1 AS verdict, l.fence, l.hold_count,
          l.expire_time - (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS remaining

-- name: ring
-- $1 ticket  $2 name  $3 owner  $4 fence
-- After the commit of what is to be told: who hears it looks with a new snapshot. Not if the lock is
-- still held. No answer: not rung.
SELECT pg_advisory_unlock($1::bigint) AS rung
 WHERE NOT EXISTS (
           SELECT FROM rowlock_locks AS l
            WHERE l.name = $2::bytea
              AND l.owner = $3::text
              AND l.fence = $4::bigint
              AND {live l (extract(epoch FROM clock_timestamp()) * 1000000)::bigint})

-- name: hush
-- Bells whose tickets are of no use any more: of an `enqueue` that failed, or is followed by another.
SELECT pg_advisory_unlock_all()

-- name: listen
-- The channel is added.
LISTEN

-- name: unlisten
UNLISTEN *

-- name: leave
-- $1 names[]  $2 tickets[]
WITH relaxed AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true) AS mode
), gone AS (
    DELETE FROM rowlock_waiters AS q
     USING relaxed
     CROSS JOIN unnest($1::bytea[], $2::bigint[]) AS w (name, ticket)
     WHERE q.name = ANY (ARRAY[w.name])
       AND q.ticket = w.ticket
    RETURNING q.ticket
)
SELECT count(*) AS gone
  FROM gone

-- name: look
-- $1 names[]  $2 tickets[]  $3 owners[]  $4 life in us, 0: read only
-- Rows that somebody has locked are passed over, so that nothing is waited for.
-- Verdict as in `turn`: 0 busy, 1 worth a try, 2 the ticket is gone.
WITH relaxed AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true) AS mode,
           (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
), want AS MATERIALIZED (
    SELECT w.name, w.ticket, w.owner, w.number, q.ticket IS NOT NULL AS lives
      FROM relaxed AS c
     CROSS JOIN unnest($1::bytea[], $2::bigint[], $3::text[])
           WITH ORDINALITY AS w (name, ticket, owner, number)
      LEFT JOIN LATERAL (
            SELECT q.ticket
              FROM rowlock_waiters AS q
             WHERE q.name = ANY (ARRAY[w.name])
               AND q.ticket = w.ticket
               AND q.expire_time > c.now
            OFFSET 0) AS q ON true
), kept AS MATERIALIZED (
    SELECT w.name, w.ticket
      FROM want AS w
     CROSS JOIN LATERAL (
            SELECT FROM rowlock_waiters AS q
             WHERE q.name = ANY (ARRAY[w.name])
               AND q.ticket = w.ticket
               AND w.lives
               AND $4::bigint > 0
               FOR NO KEY UPDATE SKIP LOCKED) AS q
), renewed AS (
    UPDATE rowlock_waiters AS q
       SET expire_time = greatest(q.expire_time, c.now + $4)
      FROM kept AS k
     CROSS JOIN relaxed AS c
     WHERE q.name = ANY (ARRAY[k.name])
       AND q.ticket = k.ticket
), names AS MATERIALIZED (
    SELECT DISTINCT w.name
      FROM want AS w
     WHERE w.lives
     ORDER BY w.name
), locked AS MATERIALIZED (
    SELECT n.name
      FROM relaxed AS c
     CROSS JOIN names AS n
     CROSS JOIN LATERAL (
            SELECT FROM rowlock_locks AS l
             WHERE l.name = ANY (ARRAY[n.name])
               AND $4 > 0
               AND l.wait_until < c.now + $4 / 3 * 2
               FOR NO KEY UPDATE SKIP LOCKED) AS l
), marked AS (
    UPDATE rowlock_locks AS l
       SET wait_until = c.now + $4
      FROM locked AS k
     CROSS JOIN relaxed AS c
     WHERE l.name = ANY (ARRAY[k.name])
)
SELECT w.number,
       CASE WHEN l.owner = w.owner AND l.expire_time > c.now THEN 1
            WHEN NOT w.lives OR w.ticket <= l.ticket THEN 2
            WHEN l.expire_time > c.now OR a.ticket > 0 THEN 0
            ELSE 1 END AS verdict,
       coalesce(a.expire_time, l.expire_time, 0) - c.now AS remaining
  FROM relaxed AS c
 CROSS JOIN want AS w
  LEFT JOIN LATERAL (
        SELECT l.owner, {end l} AS expire_time, l.ticket
          FROM rowlock_locks AS l
         WHERE l.name = ANY (ARRAY[w.name])
        OFFSET 0) AS l ON true
  LEFT JOIN LATERAL (
        SELECT q.ticket, q.expire_time
          FROM rowlock_waiters AS q
         WHERE q.name = ANY (ARRAY[w.name])
           AND q.ticket > coalesce(l.ticket, 0)
           AND q.ticket < w.ticket
           AND q.expire_time > c.now
         ORDER BY q.ticket DESC
         LIMIT 1) AS a ON true

-- name: waiters
-- $1 first name  $2 behind this ticket of it  $3 name behind the last  $4 at most so many rows
SELECT q.name, q.owner, q.ticket,
       c.now - q.since_time  AS waited,
       q.expire_time - c.now AS remaining,
       CASE WHEN {live l c.now} THEN l.owner END AS holder
  FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now OFFSET 0) AS c
 CROSS JOIN rowlock_waiters AS q
  LEFT JOIN rowlock_locks AS l
    ON l.name = q.name
 WHERE q.ticket > coalesce(l.ticket, 0)
   AND (q.name, q.ticket) > ($1::bytea, $2::bigint)
   AND q.name < $3::bytea
   AND q.expire_time > c.now
 ORDER BY q.name, q.ticket
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
-- The first statement, whatever the search_path is. backend_pid differs from what the connection was
-- told if a pooler stands in between.
-- is_read_only is what the server, the database and the role say, whatever the session was told since.
SELECT pg_catalog.pg_backend_pid() AS backend_pid, pg_catalog.pg_is_in_recovery() AS is_standby,
       pg_catalog.set_config('default_transaction_read_only', NULL, true)::boolean AS is_read_only,
       pg_catalog.version() AS version,
       pg_catalog.to_regprocedure('sys.dsql_major_version()') IS NOT NULL AS has_dsql_version

-- name: version
-- For servers that are not PostgreSQL and refuse `server`.
SELECT pg_catalog.version() AS version

-- name: path_given
-- The search_path that the role, the database and the address give, for one transaction.
SET LOCAL search_path TO DEFAULT

-- name: place
-- $1 and $2 names of tables
-- Behind `path_given`, so everything in it names its schema. The schemas of the search_path, ready to
-- stand between double quotes; how many relations of these names each has, and how many of them are no
-- plain tables. Temporary ones are not ours.
SELECT pg_catalog.replace(n.nspname::pg_catalog.text, '"', '""') AS place, r.found, r.odd
  FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS p (name, number)
  JOIN pg_catalog.pg_namespace AS n ON n.nspname OPERATOR(pg_catalog.=) p.name
 CROSS JOIN LATERAL (
        SELECT pg_catalog.count(*) AS found,
               pg_catalog.count(*) FILTER (WHERE c.relkind OPERATOR(pg_catalog.<>) 'r') AS odd
          FROM pg_catalog.pg_class AS c
         WHERE c.relnamespace OPERATOR(pg_catalog.=) n.oid
           AND (c.relname OPERATOR(pg_catalog.=) $1::pg_catalog.text
                OR c.relname OPERATOR(pg_catalog.=) $2::pg_catalog.text)) AS r
 WHERE n.oid OPERATOR(pg_catalog.<>) pg_catalog.pg_my_temp_schema()
   AND n.nspname OPERATOR(pg_catalog.<>) 'pg_catalog'::pg_catalog.text
 ORDER BY p.number

-- name: session
-- $1 lock_timeout  $2 statement_timeout  $3 for this transaction only (through a pooler)
-- $4 commits are not waited for; tx_reset takes that back for the application's transactions
-- Whatever the role's or the database's defaults are. The plan is always the primary key, row by
-- row: not a scan because the table was small or unknown when the plan was made. So it is the same for
-- any parameters, and made once. transaction_timeout is there since version 17.
-- But default_transaction_read_only stays what it is: so a primary that was replaced says that it may not
-- be written. Through a pooler it is what it was before another client changed it.
-- From here on only functions, operators and types of pg_catalog are found; this statement itself comes
-- before that and names their schema.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', $3::boolean),
       pg_catalog.set_config('lock_timeout', $1::pg_catalog.text, $3::boolean),
       pg_catalog.set_config('statement_timeout', $2::pg_catalog.text, $3::boolean),
       pg_catalog.set_config('default_transaction_isolation', 'read committed', $3::boolean),
       CASE WHEN $3::boolean THEN
                 pg_catalog.set_config('transaction_read_only',
                     pg_catalog.set_config('default_transaction_read_only', NULL, true), true) END,
       pg_catalog.set_config('default_transaction_deferrable', 'off', $3::boolean),
       CASE WHEN pg_catalog.current_setting('transaction_timeout', true) IS NOT NULL
            THEN pg_catalog.set_config('transaction_timeout', '0', $3::boolean) END,
       pg_catalog.set_config('synchronous_commit',
                  CASE WHEN $4::boolean THEN 'off'
                       WHEN pg_catalog.current_setting('synchronous_commit')
                            OPERATOR(pg_catalog.=) 'off' THEN 'on'
                       ELSE pg_catalog.current_setting('synchronous_commit') END, $3::boolean),
       pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', $3::boolean),
       pg_catalog.set_config('random_page_cost', '0.01', $3::boolean),
       pg_catalog.set_config('enable_indexscan', 'on', $3::boolean),
       pg_catalog.set_config('enable_tidscan', 'on', $3::boolean),
       pg_catalog.set_config('enable_nestloop', 'on', $3::boolean),
       pg_catalog.set_config('enable_seqscan', 'off', $3::boolean),
       pg_catalog.set_config('enable_bitmapscan', 'off', $3::boolean),
       pg_catalog.set_config('enable_hashjoin', 'off', $3::boolean),
       pg_catalog.set_config('enable_mergejoin', 'off', $3::boolean),
       pg_catalog.set_config('jit', 'off', $3::boolean)

-- name: begin
BEGIN ISOLATION LEVEL READ COMMITTED

-- name: begin_pooled
-- `session` comes next, and makes it read-only if it is to be.
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
    SELECT w.name, '', greatest(c.now, c.floor + 1), 0, '00000000-0000-0000-0000-000000000000', c.now,
           c.now, ''
      FROM want AS w
     CROSS JOIN LATERAL (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now,
                                f.last_value AS floor
                           FROM rowlock_floor AS f
                          WHERE w.name IS NOT NULL OFFSET 0) AS c
     WHERE NOT EXISTS (SELECT FROM rowlock_locks AS l WHERE l.name = ANY (ARRAY[w.name]) OFFSET 0)
     ORDER BY w.name
        ON CONFLICT (name) DO NOTHING
    RETURNING name, fence,
              fence <= (SELECT f.last_value FROM rowlock_floor AS f WHERE name IS NOT NULL OFFSET 0)
                  AS is_late
), clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
)
SELECT l.name, l.owner AS holder, l.fence AS holder_fence, l.expire_time - c.now AS remaining
  FROM want AS w
 CROSS JOIN clock AS c
 CROSS JOIN LATERAL (
        SELECT l.name, l.owner, l.fence, {end l} AS expire_time
          FROM rowlock_locks AS l
         WHERE l.name = ANY (ARRAY[w.name])
        OFFSET 0) AS l
 WHERE l.expire_time > c.now
 UNION ALL
-- As in `acquire`.
SELECT m.name, '', ('rowlock: slow, again: ' || m.fence::text)::bigint, 0
  FROM made AS m
 WHERE m.is_late

-- name: locate
-- The schema of the table, ready to stand between double quotes, and the identity of server
-- and database as in `tx_here`. Answers nothing if the table is not there.
SELECT replace(n.nspname::text, '"', '""') AS place,
       d.oid::bigint::text || ':'
       || (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint::text AS identity
  FROM pg_catalog.pg_class AS c
  JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_database AS d ON d.datname = current_database()
 WHERE c.oid = to_regclass('rowlock_locks')

-- The rest runs in transactions of the application's, on its connection or on ours. Of its session
-- nothing is taken for granted: tables are named with their schema, texts travel as bytes of UTF-8,
-- whatever client_encoding is, and `tx_path` makes the search_path ours for as long as our statements run.

-- name: tx_path
-- Behind the savepoint, before anything that has an operator. So nothing of the schemas that the session
-- searches is found, and nothing need be named with its schema: IN, NOT IN and NULLIF could not be. The
-- application does not notice: it is one statement more in the same round trip, `tx_restore` and
-- `tx_unbound` put back what was set, and so does a rollback to the savepoint. What was set is kept in a
-- setting of our own, which ends with the transaction.
SELECT pg_catalog.set_config('rowlock.search_path',
                             pg_catalog.current_setting('search_path'), true),
       pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)

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
       pg_catalog.set_config('statement_timeout', $2::text, true),
       pg_catalog.set_config('search_path',
                             pg_catalog.current_setting('rowlock.search_path'), true)

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
            SELECT l.owner, l.fence, {end l} AS expire_time
              FROM rowlock_locks AS l
             WHERE l.name = ANY (ARRAY[w.name])
               AND $4::boolean
               FOR UPDATE) AS l
), passed AS MATERIALIZED (
    SELECT w.name, w.owner, w.attempt, l.owner AS holder, l.fence, l.expire_time
      FROM want AS w
     CROSS JOIN LATERAL (
            SELECT l.owner, l.fence, {end l} AS expire_time
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
        SELECT l.name, l.owner, l.fence, {end l} AS expire_time
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
    SELECT {end l} AS expire_time
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
       {live l c.now}              AS is_seen_live,
       coalesce(l.fence, 0)        AS seen_fence,
       pg_catalog.current_setting('transaction_isolation')
       IN ('repeatable read', 'serializable') AS has_snapshot
  FROM clock AS c
  LEFT JOIN rowlock_locks AS l ON l.name = $1::bytea

-- name: tx_bound
-- $1 lock_timeout in ms
-- Around the guard, which waits for no row, but would for a table that somebody is altering. What was
-- set before is kept as in `tx_path`, so that one round trip is enough.
SELECT pg_catalog.set_config('rowlock.lock_timeout',
                             pg_catalog.current_setting('lock_timeout'), true),
       pg_catalog.set_config('lock_timeout', $1::text, true)

-- name: tx_unbound
SELECT pg_catalog.set_config('lock_timeout',
                             pg_catalog.current_setting('rowlock.lock_timeout'), true),
       pg_catalog.set_config('search_path',
                             pg_catalog.current_setting('rowlock.search_path'), true)

-- name: tx_reset
-- The rest of the transaction is the application's: what `session` and `tx_limits` have set goes back
-- to what the server gave this connection. Answers, in each row, the number of the transaction.
SELECT set_config(s.name, NULL, true), txid_current()
  FROM unnest(ARRAY['search_path', 'statement_timeout',
                    'default_transaction_isolation',
                    'default_transaction_deferrable', 'transaction_timeout',
                    'synchronous_commit', 'plan_cache_mode', 'random_page_cost',
                    'enable_indexscan', 'enable_tidscan', 'enable_nestloop', 'enable_seqscan',
                    'enable_bitmapscan', 'enable_hashjoin', 'enable_mergejoin', 'jit']) AS s (name)
 WHERE pg_catalog.current_setting(s.name, true) IS NOT NULL

-- name: tx_ready
-- The last of those settings, as a command: a SELECT, though it is done, would keep its snapshot until
-- the next statement comes, and CREATE INDEX CONCURRENTLY would wait for the transaction's end.
SET LOCAL lock_timeout TO DEFAULT

-- name: tx_same
-- $1 the number of the transaction. Before the COMMIT: fails if the application has ended it and begun
-- another one, in which nothing is locked.
SELECT 1 OPERATOR(pg_catalog./)
       (pg_catalog.txid_current() OPERATOR(pg_catalog.=) $1::bigint)::int AS is_same

-- name: savepoint
SAVEPOINT rowlock_step

-- name: savepoint_release
RELEASE SAVEPOINT rowlock_step

-- name: savepoint_undo
ROLLBACK TO SAVEPOINT rowlock_step

-- name: diagnose_server
-- What the whole server says of itself. The settings are those that a session has before `session`
-- changes them. Logical subscribers are no standbys: nobody fails over to them.
SELECT current_setting('server_version')                                      AS version,
       current_setting('server_version_num')::bigint                          AS number,
       current_database()::text                                               AS database,
       current_user::text                                                     AS role,
       pg_is_in_recovery()                                                    AS is_standby,
       current_setting('fsync')::boolean                                      AS fsync,
       current_setting('full_page_writes')::boolean                           AS full_pages,
       (SELECT s.reset_val FROM pg_catalog.pg_settings AS s
         WHERE s.name = 'synchronous_commit')                                 AS commits,
       (SELECT s.reset_val FROM pg_catalog.pg_settings AS s
         WHERE s.name = 'default_transaction_isolation')                      AS isolation,
       (SELECT s.reset_val FROM pg_catalog.pg_settings AS s
         WHERE s.name = 'default_transaction_read_only')                      AS read_only,
       current_setting('autovacuum')::boolean
       AND current_setting('track_counts')::boolean                           AS autovacuum,
       (SELECT count(*) FROM pg_catalog.pg_stat_replication AS r
         WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_replication_slots AS s
                            WHERE s.active_pid = r.pid AND s.slot_type = 'logical'))
                                                                              AS standbys,
       current_setting('synchronous_standby_names') <> ''                     AS is_synchronous,
       (pg_notification_queue_usage() * 100)::bigint                          AS queue_percent,
       (SELECT sum(d.numbackends) FROM pg_catalog.pg_stat_database AS d)        AS clients,
       current_setting('max_connections')::bigint                             AS clients_max,
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint              AS now

-- name: diagnose_path
-- Behind `path_given`, so everything in it names its schema. A row for each schema of the search_path in
-- which somebody may create who is neither its owner, nor a superuser, nor this role.
SELECT n.nspname::pg_catalog.text AS name,
       pg_catalog.string_agg(coalesce(r.rolname::pg_catalog.text, 'PUBLIC'), ', '
                             ORDER BY r.rolname) AS creators
  FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS p (name, number)
  JOIN pg_catalog.pg_namespace AS n ON n.nspname OPERATOR(pg_catalog.=) p.name
 CROSS JOIN LATERAL pg_catalog.aclexplode(n.nspacl) AS a
  LEFT JOIN pg_catalog.pg_roles AS r ON r.oid OPERATOR(pg_catalog.=) a.grantee
 WHERE a.privilege_type OPERATOR(pg_catalog.=) 'CREATE'::pg_catalog.text
   AND a.grantee OPERATOR(pg_catalog.<>) n.nspowner
   AND r.rolsuper IS NOT TRUE
   AND (r.rolname OPERATOR(pg_catalog.=) CURRENT_USER) IS NOT TRUE
 GROUP BY n.nspname, p.number
 ORDER BY p.number

-- name: diagnose_tables
-- A row for each table: what it is, what this role may not do with it, which columns it lacks.
SELECT t.name,
       c.oid IS NOT NULL                                                      AS is_there,
       coalesce(c.relkind::text, '')                                          AS kind,
       coalesce(c.relpersistence::text, '')                                   AS persistence,
       coalesce(c.relrowsecurity, false)                                      AS has_policies,
       coalesce('autovacuum_enabled=false' = ANY (c.reloptions)
                OR 'autovacuum_enabled=off' = ANY (c.reloptions), false)      AS is_left_unclean,
       (SELECT count(*) FROM pg_catalog.pg_trigger AS g
         WHERE g.tgrelid = c.oid AND NOT g.tgisinternal AND g.tgenabled <> 'D') AS triggers,
       coalesce((SELECT string_agg(r.name, ', ' ORDER BY r.place)
                   FROM unnest(t.rights) WITH ORDINALITY AS r (name, place)
                  WHERE NOT has_table_privilege(c.oid, r.name)), '')          AS denied,
       coalesce((SELECT string_agg(w.text, ', ' ORDER BY w.place)
                   FROM unnest(t.columns) WITH ORDINALITY AS w (text, place)
                  WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_attribute AS a
                                     WHERE a.attrelid = c.oid
                                       AND NOT a.attisdropped
                                       AND a.attname || ' '
                                           || format_type(a.atttypid, a.atttypmod) = w.text)), '')
                                                                              AS lacking
  FROM (VALUES (1, 'locks', to_regclass('rowlock_locks'),
                ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'],
                ARRAY['name bytea', 'owner text', 'fence bigint', 'hold_count integer',
                      'attempt uuid', 'acquire_time bigint', 'expire_time bigint',
                      'wait_until bigint', 'ticket bigint', 'note text']),
               (2, 'waiters', to_regclass('rowlock_waiters'),
                ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'],
                ARRAY['name bytea', 'ticket bigint', 'owner text', 'since_time bigint',
                      'expire_time bigint', 'has_bell boolean']),
               (3, 'schema', to_regclass('rowlock_schema'),
                ARRAY['SELECT'],
                ARRAY['version integer']),
               (4, 'floor', to_regclass('rowlock_floor'),
                ARRAY['SELECT', 'UPDATE'],
                ARRAY['last_value bigint'])) AS t (place, name, found, rights, columns)
  LEFT JOIN pg_catalog.pg_class AS c ON c.oid = t.found
 ORDER BY t.place
